package main

import (
	"context"

	"sendcode/internal/app"
	"sendcode/internal/config"
)

// accounts is for an administrator with a shell who cannot log in to the console, or has no account yet.
type accounts struct {
	Do     string `arg:"" enum:"add,role,identity,password,factor,close,open,list" help:"add, role, identity, password, factor, close, open or list."`
	Name   string `arg:"" optional:"" help:"Of the account."`
	Role   string `enum:"reader,operator,owner" default:"reader" help:"With add and role: reader, operator or owner."`
	Reason string `help:"Why; it is recorded."`

	Identity string `help:"With add and identity: what the provider (admin.oidc) calls this person, who then needs no password."`
}

// Run prints the password of a new account once.
func (a accounts) Run(ctx context.Context, p program, cfg config.Config) error {
	return p.accounts(ctx, cfg, app.AccountChange{Name: a.Name, Role: a.Role, Do: a.Do, Reason: a.Reason, Identity: a.Identity}, p.out)
}
