package sqldb

import (
	"database/sql"
)

// Collect reads all rows and closes them.
func Collect[T any](rows *sql.Rows, fields func(*T) []any) ([]T, error) {
	defer rows.Close()
	var list []T
	for rows.Next() {
		var x T
		if err := rows.Scan(fields(&x)...); err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, rows.Err()
}
