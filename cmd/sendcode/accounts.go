package main

import (
	"context"

	"sendcode/internal/app"
	"sendcode/internal/config"
)

// accounts is for an administrator with a shell who cannot log in to the console, or has no account yet.
type accounts struct{ app.AccountChange }

// Run prints the password of a new account once.
func (a accounts) Run(ctx context.Context, p program, cfg config.Config) error {
	return p.accounts(ctx, cfg, a.AccountChange, p.out)
}
