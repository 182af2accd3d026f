package page

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"sendcode/internal/recipient"
	"sendcode/internal/verification"
)

// typed is what stands in the field of a channel.
type typed struct {
	on    recipient.Channel
	text  string
	draft bool // it was not acted on yet
}

// typed returns the text typed last and its channel.
func (l *look) typed() typed {
	if s := l.session; s.DraftOn != "" {
		return typed{s.DraftOn, cmp.Or(s.Draft, l.session.fieldTextOn(s.DraftOn)), true}
	}
	return typed{on: l.session.begun(), text: l.session.shown()}
}

// typedElsewhere returns the text of the field whose channel is not chosen.
func (l *look) typedElsewhere() typed {
	other := otherThan(l.session.channel())
	if l.session.DraftOn == other {
		return l.typed()
	}
	return typed{on: other, text: l.session.Other.shown()}
}

// fieldTextOn returns the recipient, not masked, that the channel's field holds until something else is typed.
func (s session) fieldTextOn(ch recipient.Channel) string {
	if ch == s.channel() {
		return s.shown()
	}
	return s.Other.shown()
}

// offers returns the page's channels in its order, without paused ones unless all are paused.
func (u *Page) offers() []verification.Offer {
	all := u.Codes.Offers("") // for the default purpose
	rank := func(o verification.Offer) int { return slices.Index(u.Channels, o.Channel) }
	if len(u.Channels) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(o verification.Offer) bool { return rank(o) < 0 })
		slices.SortFunc(all, func(a, b verification.Offer) int { return rank(a) - rank(b) })
	}
	if open := slices.DeleteFunc(slices.Clone(all), func(o verification.Offer) bool { return o.Paused }); len(open) > 0 {
		return open
	}
	return all
}

// channelOf returns the channel that a form names, or the first one if the page does not have that.
func (u *Page) channelOf(named string) recipient.Channel {
	offers := u.offers()
	if len(offers) == 0 {
		return recipient.Email
	}
	i := slices.IndexFunc(offers, func(o verification.Offer) bool { return string(o.Channel) == named })
	return offers[max(i, 0)].Channel
}

func (l *look) askFor(e typed) *askCard {
	e.on = l.channelOf(string(e.on))
	t := l.words.forChannel(e.on)
	offers := l.offers()
	k := &askCard{Lead: t.AskLead, Channel: e.on, Back: (l.view == changing || l.view == elsewhere) && l.session.ID != ""}
	k.Heading = t.AskHeading
	if l.Title != "" {
		k.Heading = fill(t.AskHeadingApp, "app", l.Title)
	}
	lead := t.codeTexts(l.Code).lead
	if len(offers) > 1 {
		k.Lead, k.Legend = t.AskLeadEither, t.ChannelLabel
		lead = t.codeTexts(l.Code).either
	}
	if l.Code.Length > 0 {
		k.Lead = fill(lead, "n", strconv.Itoa(l.Code.Length))
	}
	for _, o := range offers {
		if len(offers) > 1 {
			k.Choices = append(k.Choices, choice{o.Channel, l.words.channelName(o.Channel), o.Channel == e.on})
		}
		if o.Channel == recipient.SMS {
			k.Phone = l.phone(o.Countries, l.entry(e, o.Channel))
		} else {
			k.Mail = new(l.entry(e, o.Channel))
		}
	}
	l.askNotes(k, e)
	k.Rev = rev(k.kind(), e, k.Say)
	return k
}

// fieldName is what the field of each channel is called in the form.
var fieldName = map[recipient.Channel]string{recipient.Email: "to", recipient.SMS: "phone"}

// entry returns the field of a channel, filled with e if e is of this channel, else with what the session remembers.
func (l *look) entry(e typed, ch recipient.Channel) entry {
	f := entry{Name: fieldName[ch], Label: l.words.forChannel(ch).AddressLabel, Focus: ch == e.on}
	if ch == e.on {
		f.Value = e.text
	} else if l.view != anew {
		f.Value = l.session.fieldTextOn(ch)
	}
	return f
}

// askNotes adds the message about the last post to the field that it concerns.
func (l *look) askNotes(k *askCard, e typed) {
	f := k.field()
	if f == nil {
		return
	}
	t := l.words.forChannel(k.Channel)
	switch n := l.session.Note; n.Kind {
	case badAddress:
		f.Error = cmp.Or(t.BadAddress[n.Reason], t.BadAddressElse)
		if len(k.Choices) > 1 && slices.Contains([]string{"country_not_served", "voip", "number_not_allowed"}, n.Reason) {
			f.Error += t.Separator + t.MailInstead
		}
		k.Say = f.Error
	case stale:
		k.Note = &box{"warn", t.Stale}
	case tooMany:
		k.Note = &box{"bad", t.TooManyChecks}
		k.Say = k.Note.Text
	}
	if f.Error == "" {
		k.Typo = l.doubt(e)
	}
	f.Doubt = k.Typo
	if kind := l.session.Note.Kind; k.Typo != nil && (kind == typo || kind == landline) {
		k.Say = k.Typo.Question
	}
}

// field returns the field of the chosen channel.
func (k *askCard) field() *entry {
	if k.Channel == recipient.SMS && k.Phone != nil {
		return &k.Phone.entry
	}
	return k.Mail
}

// doubt returns a suggestion if the domain looks mistyped or the number is a landline's; else nil.
func (l *look) doubt(e typed) *suggestion {
	t := l.words.forChannel(e.on)
	if e.on == recipient.SMS {
		if l.session.Note.Kind != landline {
			return nil
		}
		return &suggestion{Question: t.Landline, AsIs: t.LandlineAsIs, Sure: e.text, Draft: true, Separator: t.Separator}
	}
	better, ok := recipient.Suggest(e.text)
	if !ok {
		return nil
	}
	_, domain, _ := strings.Cut(e.text, "@")
	_, meant, _ := strings.Cut(better, "@")
	return &suggestion{
		Question: fill(t.DidYouMean, "domain", meant), AsIs: fill(t.MeantAsIs, "domain", domain),
		Use: fill(t.UseInstead, "domain", meant), Sure: domain, Draft: e.draft, Separator: t.Separator,
	}
}
