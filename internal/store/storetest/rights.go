package storetest

// OnActs is what an intruder might try who wants an act not to have been: none may get through.
var OnActs = []string{
	`UPDATE acts SET who = 'other'`, `UPDATE acts SET reason = '' WHERE false`, `DELETE FROM acts`, `DELETE FROM acts WHERE who = 'mei'`,
	`DELETE FROM act_people`, `UPDATE act_people SET masked = 'b•••@example.com'`,
	`UPDATE act_people SET recipient = decode(repeat('02', 16), 'hex'), masked = '•••'`,
	`UPDATE act_people SET act = '00000000-0000-7000-8000-000000000000', masked = '•••'`,
	`INSERT INTO acts SELECT * FROM acts ON CONFLICT (id) DO UPDATE SET who = 'other'`,
	`INSERT INTO act_people SELECT * FROM act_people ON CONFLICT (act) DO UPDATE SET masked = 'x'`,
}
