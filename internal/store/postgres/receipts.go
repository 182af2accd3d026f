package postgres

import ()

// deliveredSQL notes the minute in which there is a delivered message: the console finds these rows by it.
const deliveredSQL = `
INSERT INTO minutes (field, value, minute) SELECT 'receipt', 'delivered', date_trunc('minute', s.logged_at) FROM sends s WHERE s.id = @id ON CONFLICT DO NOTHING`
