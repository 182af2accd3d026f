package pagetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"sendcode/internal/fault"
	"sendcode/internal/recipient"
	"sendcode/internal/store"
	"sendcode/internal/verification"
	"sendcode/quota"
)

// parse parses a recipient. It fails if the channel does not exist or the country is not served.
func (c *Codes) parse(channel, to, country string) (recipient.Recipient, error) {
	if channel == string(recipient.SMS) && c.Countries == nil {
		return recipient.Recipient{}, fault.Invalid("channel", "not_configured", "")
	}
	if _, err := recipient.ParseChannel(channel); err != nil {
		return recipient.Recipient{}, fault.Invalid("channel", "unsupported", "")
	}
	r, err := recipient.ParseIn(recipient.Channel(channel), to, country)
	var bad *recipient.InvalidError
	switch {
	case errors.As(err, &bad):
		return r, fault.Invalid("to", bad.Reason, "")
	case r.Channel() == recipient.SMS && !slices.Contains(c.Countries, r.Country()):
		return r, fault.Invalid("to", "country_not_served", "")
	case r.VoIP():
		return r, fault.Invalid("to", "voip", "")
	}
	return r, nil
}

// peek returns the rules' present decision, with the carrier's wait if there is one.
func (c *Codes) peek(ctx context.Context, to recipient.Recipient, caller verification.Caller) (quota.Decision, error) {
	d, err := c.limiter.Peek(ctx, quota.Request{Rules: c.Rules, Buckets: c.bucketsOf(to, caller)})
	if left := c.barred[to.Address()].Sub(c.now()); left > 0 {
		rule := quota.Rule{Name: verification.CarrierRule, Scope: quota.Recipient, Limit: 1, Window: left}
		d.Rules = append(d.Rules, quota.State{Rule: rule, Used: 1, ResetAfter: left, RetryAfter: left})
	}
	return d, err
}

// Wait is how long the next mail to an address has to wait now.
func (c *Codes) Wait(address string) (time.Duration, error) {
	to, err := recipient.Parse(recipient.Email, address)
	if err != nil {
		return 0, err
	}
	d, err := c.peek(context.Background(), to, verification.Caller{})
	return d.RetryAfter(), err
}

// FailByCarrier has a carrier take nothing more for the newest send's recipient for a while; that send has failed.
func (c *Codes) FailByCarrier(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.barred[c.newest.to.Address()] = c.now().Add(d)
	c.settle(c.newest, store.Failed)
}

// SetCountries sets the countries that text messages go to, in alphabetical order; without any the channel is off.
func (c *Codes) SetCountries(countries ...string) { c.change(func() { c.Countries = countries }) }

// Pause pauses a channel; "" ends that.
func (c *Codes) Pause(ch recipient.Channel) { c.change(func() { c.paused = ch }) }

// Channels implements page.codes.
func (c *Codes) Channels(purpose string) ([]verification.ChannelInfo, error) {
	if !slices.Contains([]string{"", "default", "gift", "confirm"}, purpose) {
		return nil, fault.Invalid("purpose", "unknown", "No purpose of that name is configured.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	offers := []verification.ChannelInfo{{Channel: recipient.Email, Paused: c.paused == recipient.Email}}
	if c.Countries != nil {
		offers = append(offers, verification.ChannelInfo{Channel: recipient.SMS, Paused: c.paused == recipient.SMS, Countries: c.Countries})
	}
	return offers, nil
}
