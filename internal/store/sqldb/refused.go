package sqldb

import ()

// RefundedSQL is the same in both databases.
const RefundedSQL = `DELETE FROM refunds WHERE id = $1 AND attempt = $2`

// AddRefusalSQL adds a refusal to the row that has its ID; a row that was a send is not touched.
const AddRefusalSQL = `
ON CONFLICT (id) DO UPDATE SET requests = sends.requests + excluded.requests, retry_after = excluded.retry_after,
              recipients = CASE WHEN excluded.recipients > sends.recipients THEN excluded.recipients ELSE sends.recipients END
WHERE sends.status = 'refused'`
