package document

// SecretSource names the environment variable that has a secret. Instead of that variable, the
// variable with _FILE appended to the name may have the path of a file with the secret.
type SecretSource struct {
	// The `NAME` of the environment variable with the secret. The name must not begin with
	// `SENDCODE_`. Instead of the variable, `NAME_FILE` may have the path of a file with the
	// secret.
	SecretEnv string `yaml:"secret_env,omitempty"`
	Secret    Secret `yaml:"-"`
}

// SecretReader reads the secret of a variable, or returns the variable's problem. If a struct has a
// SecretSource, Decoder.Owner must be a SecretReader.
type SecretReader interface {
	ReadSecret(variable string) (secret Secret, problem string)
}

// Check implements checker. It reads the secret.
func (s *SecretSource) Check(p *Mapping) {
	if p.Given["secret_env"] == nil {
		return
	}
	secret, problem := p.Owner.(SecretReader).ReadSecret(s.SecretEnv)
	if problem != "" {
		p.AddMistake("secret_env", "%s", problem)
	}
	s.Secret = secret
}
