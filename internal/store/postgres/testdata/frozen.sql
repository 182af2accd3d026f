COPY public.accounts (name, role, password, created_at, disabled_at, identity) FROM stdin;
mei	owner	$argon2id$	2024-03-06 15:00:00+00	\N	
\.

COPY public.app_events (id, app, type, send_id, verification_id, status, reason, test, at, state, attempt, due_at, ended_at, answer) FROM stdin;
01000000-0001-7000-8000-000000000000	shop	send.sent	018e13a2-7e00-7000-8000-000000000002	v-018e13a2-7e00-7000-8000-000000000002	sent		f	2024-03-06 12:00:00+00	pending	0	2024-03-06 12:00:00+00	\N	
\.

COPY public.audit_entries (id, at, actor, role, network, action, app, channel, purpose, target, reason, outcome, detail, completes) FROM stdin;
000001f5-0000-7000-8000-000000000000	2024-03-06 15:00:00+00	mei	operator	192.0.2.0/24	quota.reset	shop	email	login	0190	ticket 7, she waits\nat the door	done	3	\N
000001f6-0000-7000-8000-000000000000	2024-03-06 15:00:00+00	mei	operator	192.0.2.0/24	quota.reset	shop	email	login	0190	ticket 7, she waits\nat the door	done	3	\N
000001f7-0000-7000-8000-000000000000	2024-03-06 15:00:00+00	mei	operator	192.0.2.0/24	quota.reset	shop	email	login	0190	ticket 7, she waits\nat the door	done	3	\N
000001f9-0000-7000-8000-000000000000	2024-03-06 15:00:00+00	mei	operator	192.0.2.0/24	recipient.erase	shop	email	login	0190	ticket 7, she waits\nat the door	done	3	\N
\.

COPY public.audit_recipients (entry, recipient, masked) FROM stdin;
000001f5-0000-7000-8000-000000000000	\\x00000000000000000000000000000001	a•••@example.com
000001f6-0000-7000-8000-000000000000	\\x00000000000000000000000000000001	a•••@example.com
000001f7-0000-7000-8000-000000000000	\\x00000000000000000000000000000001	a•••@example.com
000001f9-0000-7000-8000-000000000000	\\x00000000000000000000000000000002	•••
\.

COPY public.carrier_holds (channel, recipient, since, until) FROM stdin;
sms	\\x00000000000000000000000000000005	2024-03-06 15:00:00+00	2024-03-06 16:00:00+00
\.

COPY public.counted_hours (hour) FROM stdin;
2024-03-06 13:00:00+00
2024-03-06 12:00:00+00
\.

COPY public.erasures (recipient, forget_at) FROM stdin;
\\x00000000000000000000000000000002	2024-03-06 16:00:00+00
\.

COPY public.failures (status, logged_at, id, finished_at, counts, app, channel, recipient) FROM stdin;
failed	2024-03-06 12:00:00+00	018e13a2-7e00-7000-8000-000000000003	2024-03-06 12:00:00+00	t	shop	email	\\x00000000000000000000000000000002
\.

COPY public.hour_codes (hour, app, channel, purpose, dimension, value, opened, approved) FROM stdin;
2024-03-06 12:00:00+00	shop	email	login	carrier	mx.example	1	1
2024-03-06 12:00:00+00	shop	sms	login	carrier	carrier	1	0
2024-03-06 12:00:00+00	shop	sms	login	domain	example.com	1	0
2024-03-06 12:00:00+00	shop	sms	login	country	DE	1	0
2024-03-06 12:00:00+00	shop	email	login	domain	example.com	1	1
\.

COPY public.hour_domains (hour, app, channel, purpose, domain, sends, failed, rejected) FROM stdin;
2024-03-06 12:00:00+00	shop	email	login	example.com	1	0	0
2024-03-06 12:00:00+00	shop	sms	login	example.com	1	0	0
\.

COPY public.hour_tallies (hour, app, channel, purpose, status, reason, blocked_by, rows, requests, opened, approved) FROM stdin;
2024-03-06 12:00:00+00	shop	email	login	refused		minute	1	1	0	0
2024-03-06 12:00:00+00	shop	email	login	failed	rejected		1	1	1	0
2024-03-06 12:00:00+00	shop	sms	login	sent			1	1	1	0
2024-03-06 12:00:00+00	shop	email	login	sent			1	1	1	1
\.

COPY public.hour_times (hour, app, channel, purpose, bucket, n) FROM stdin;
2024-03-06 12:00:00+00	shop	email	login	0	1
2024-03-06 12:00:00+00	shop	sms	login	0	1
\.

COPY public.idempotency_keys (key, fingerprint, send_id, created_at, held_until) FROM stdin;
\\x0000000000000000000000000000000000000000000000000000000000000001	\\x0100000000000000000000000000000000000000000000000000000000000000	018e1447-4980-7000-8000-0000000001fa	2024-03-06 15:00:00+00	2024-03-06 15:00:15+00
\.

COPY public.key_checks (name, value) FROM stdin;
index key	\\x0000000000000000000000000000000000000000000000000000000000000000
\.

COPY public.leases (name, until) FROM stdin;
watch	2024-03-06 16:00:00+00
\.

COPY public.limiter_events (bucket, id, at, until, refunded, writer, seq) FROM stdin;
\\x6e6574	\\x61	2024-03-06 15:00:00+00	2024-03-06 16:00:00+00	f	1	1
\.

COPY public.minute_index (field, value, minute) FROM stdin;
provider	mx.example	2024-03-06 12:00:00+00
provider	carrier	2024-03-06 12:00:00+00
\.

COPY public.outbox (id, due_at, attempt, queued, channel, stranger, expires_at, sealed) FROM stdin;
018e1447-4980-7000-8000-0000000001fa	2024-03-06 15:00:08+00	1	f	email	f	2024-03-06 15:10:00+00	\\x612063616c6c6572277320636f6465
\.

COPY public.pending_receipts (carrier, message_id, send_id, at, ask_at, asked) FROM stdin;
twilio	SM1	018e13a2-7e00-7000-8000-000000000002	2024-03-06 15:00:00+00	2024-03-06 15:01:00+00	0
\.

COPY public.prefix_pauses (id, app, country, prefix, class, since, until, sends, approved, usual, lifted_at, lifted_by, lifted_why) FROM stdin;
26ee5266-f1ac-57d6-98d3-f8298d5d7e8a	shop	DE	+49151		2024-03-06 15:00:00+00	2024-03-06 16:00:00+00	1	0	-1	\N		
\.

COPY public.provider_events (send_id, kind, at, heard_at, provider, detail) FROM stdin;
018e13a2-7e00-7000-8000-000000000002	complained	2024-03-06 15:00:00+00	2024-03-06 15:00:00+00	postmark	
\.

COPY public.refunds (id, since, attempt) FROM stdin;
018e13a2-7e00-7000-8000-000000000003	2024-03-06 12:00:00+00	1
\.

COPY public.refusals (id, logged_at, retry_after, requests, recipients, app, channel, purpose, recipient, masked, domain, country, prefix, verification_id, locale, network, blocked_by) FROM stdin;
018e13a2-7e00-7000-8000-000000000005	2024-03-06 12:00:00+00	40000000	1	0	shop	email	login	\\x00000000000000000000000000000001	a•••@example.com	example.com				en	192.0.2.0/24	minute
\.

COPY public.second_factors (account, sealed, step, created_at) FROM stdin;
mei	\\x01026b314cf6960afee8dffc273fccfad83a2b6bc50022da723e9876b0afcc721210f29d0fffe61e728e562311cf20bf5bd0bc3e	0	2024-03-06 15:00:00+00
\.

COPY public.sends_frozen (id, logged_at, finished_at, took, number, attempt, in_doubt, counts, was_reset, suppression_id, status, reason, provider, provider_code, receipt, worst_event, bounced, app, channel, purpose, recipient, masked, domain, country, prefix, verification_id, locale, reference, network, site, request_id, observed, human_check) FROM stdin;
018e13a2-7e00-7000-8000-000000000004	2024-03-06 12:00:00+00	2024-03-06 12:00:00+00	0	1	1	f	t	f	\N	sent		carrier	202			f	shop	sms	login	\\x00000000000000000000000000000000	a•••@example.com	example.com	DE	+49151	v-018e13a2-7e00-7000-8000-000000000004	en	order 7	192.0.2.0/24				
018e13a2-7e00-7000-8000-000000000002	2024-03-06 12:00:00+00	2024-03-06 12:00:00+00	0	1	1	f	t	f	\N	sent		mx.example	250 2.0.0		complained	f	shop	email	login	\\x00000000000000000000000000000001	a•••@example.com	example.com			v-018e13a2-7e00-7000-8000-000000000002	en	order 7	192.0.2.0/24				
018e13a2-7e00-7000-8000-000000000003	2024-03-06 12:00:00+00	2024-03-06 12:00:00+00	0	1	1	f	f	f	\N	failed	rejected					f	shop	email	login	\\x00000000000000000000000000000002	•••				v-018e13a2-7e00-7000-8000-000000000003							
018e1447-4980-7000-8000-0000000001fa	2024-03-06 15:00:00+00	\N	0	1	1	f	t	f	\N	sending						f	shop	email	login	\\x00000000000000000000000000000006	a•••@example.com	example.com			v-018e1447-4980-7000-8000-0000000001fa	en	order 7	192.0.2.0/24				
\.

COPY public.sessions (id, account, bound, started_at, seen_at, via, granted, passed) FROM stdin;
\\x0000000000000000000000000000000000000000000000000000000000000009	mei	\\x0000000000000000000000000000000000000000000000000000000000000000	2024-03-06 15:00:00+00	2024-03-06 15:00:00+00			f
\.

COPY public.spending (cap, period, used) FROM stdin;
day	2024-03-06	7
\.

COPY public.suppressions (id, app, channel, address, recipient, masked, reason, detail, send_id, created_by, since, until, lifted_at, lifted_by, lifted_why, server, words, held_until) FROM stdin;
00000000-00f8-7000-8000-000000000000		email	\\xad000000000000000000000000000004	\\x00000000000000000000000000000004	a•••@example.com	manual	asked by telephone	\N	ops	2024-03-06 15:00:00+00	2024-03-07 15:00:00+00	\N					\N
\.

COPY public.verifications (created_at, expires_at, approved_at, canceled_at, redeemed_at, attempts, max_attempts, sends, attempts_reset, code_length, caller_checks, class, id, app, channel, purpose, recipient, masked, sealed, redeemed_by, holder, nonce, key_id, alphabet, locale, reference, checks, replaces, check_key, details, not_me_at, reported) FROM stdin;
2024-03-06 12:00:00+00	2024-03-06 12:10:00+00	2024-03-06 12:00:00+00	\N	\N	1	5	1	0	6	f		v-018e13a2-7e00-7000-8000-000000000002	shop	email	login	\\x00000000000000000000000000000001	a•••@example.com	\\x0001ff	\N		\\x30313233343536373839616263646566	k1	digits	en	order 7	1709726400000000 192.0.2.0/24		\N		\N	
2024-03-06 12:00:00+00	2024-03-06 12:10:00+00	\N	\N	\N	0	5	1	0	6	f		v-018e13a2-7e00-7000-8000-000000000004	shop	sms	login	\\x00000000000000000000000000000000	a•••@example.com	\\x0001ff	\N		\\x30313233343536373839616263646566	k1	digits	en	order 7			\N		\N	
2024-03-06 12:00:00+00	2024-03-06 12:10:00+00	\N	\N	\N	0	5	1	0	6	f		v-018e13a2-7e00-7000-8000-000000000003	shop	email	login	\\x00000000000000000000000000000002	•••	\N	\N		\\x	k1	digits					\N		\N	
2024-03-06 15:00:00+00	2024-03-06 15:10:00+00	\N	\N	\N	0	5	1	0	6	t		v-018e1447-4980-7000-8000-0000000001fa	shop	email	login	\\x00000000000000000000000000000006	a•••@example.com	\\x0001ff	\N		\\x30313233343536373839616263646566	k1	digits	en	order 7			\N		\N	
\.

COPY public.write_probe (filling) FROM stdin;
\.

