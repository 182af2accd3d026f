package audit

// For the statements of one database.
func (s *Send) fields() []any         { return sendFields(s) }
func (v *Verification) fields() []any { return verificationFields(v) }
