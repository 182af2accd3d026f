package page

import (
	"cmp"
	"slices"
	"strings"

	"sendcode/internal/base/recipient"
	"sendcode/internal/verify/verification"
)

// offeredChannels returns the channels that the page offers, in its order. It leaves out paused
// channels, unless all are paused.
func (u *Page) offeredChannels() []verification.ChannelInfo {
	all, _ := u.Codes.Channels(u.purpose.Name) // a purpose that was just removed has none
	rank := func(o verification.ChannelInfo) int { return slices.Index(u.Channels, o.Channel) }
	if len(u.Channels) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(o verification.ChannelInfo) bool { return rank(o) < 0 })
		slices.SortFunc(all, func(a, b verification.ChannelInfo) int { return rank(a) - rank(b) })
	}
	if open := slices.DeleteFunc(slices.Clone(all),
		func(o verification.ChannelInfo) bool { return o.Paused }); len(open) > 0 {
		return open
	}
	return all
}

// channelOrFirst returns the named channel if the page offers it, else the first offered one, or
// mail if it offers none.
func (u *Page) channelOrFirst(named string) recipient.Channel {
	offers := u.offeredChannels()
	if len(offers) == 0 {
		return recipient.Email
	}
	i := slices.IndexFunc(offers, func(o verification.ChannelInfo) bool { return string(o.Channel) == named })
	return offers[max(i, 0)].Channel
}

// askCard returns the card that asks for the recipient. It shows the field of this channel or, if
// the page does not offer the channel, the first field.
func (l *visit) askCard(on recipient.Channel) *card {
	on = l.channelOrFirst(string(on))
	t, offers := l.t.forChannel(on), l.offeredChannels()
	k := l.newCard("ask", t["AskHeading"])
	k.Say = ""
	if l.purpose.Title != nil {
		k.Heading += t.purposeTitleSuffix(l.purpose.Title(t["Lang"]))
	}
	k.Ask = &askForm{Channel: on, Back: (l.view == viewChangeRecipient || l.view == viewOtherChannelField) && l.session.ID != ""}
	lead := "AskLead"
	for _, o := range offers {
		if len(offers) > 1 {
			lead = "AskLeadEither"
			k.Ask.Choices = append(k.Ask.Choices, channelChoice{o.Channel, t[channelNameKeys[o.Channel]], o.Channel == on})
		}
		f := textField{
			Name: recipientFieldNames[o.Channel], Label: t.forChannel(o.Channel)["AddressLabel"],
			Value: l.fieldValue(o.Channel),
			Focus: o.Channel == on,
		}
		if o.Channel == recipient.SMS {
			k.Ask.Phone = l.newPhoneField(o.Countries, f)
		} else {
			k.Ask.Mail = &f
		}
	}
	k.Lead = escapeHTML(t[lead])
	if l.purpose.Code.Length > 0 {
		k.Lead = escapeHTML(t.codeShapeText(l.purpose.Code, lead+"Digits"))
	}
	l.addAskNote(k, t)
	return k
}

// recipientFieldNames is the name of the form field for the recipient of each channel;
// channelNameKeys are the keys of the channels' names in package texts.
var (
	recipientFieldNames = map[recipient.Channel]string{recipient.Email: "to", recipient.SMS: "phone"}
	channelNameKeys     = map[recipient.Channel]string{recipient.Email: "ByMail", recipient.SMS: "BySMS"}
)

// fieldValue returns the text in the field of a channel: what was typed last, else the recipient.
func (l *visit) fieldValue(ch recipient.Channel) string {
	s := l.session
	switch {
	case l.view == viewEmptyField:
		return ""
	case s.DraftOn == ch && s.Draft != "":
		return s.Draft
	case s.channelOrEmail() == ch:
		return s.displayedRecipient()
	}
	return s.Other.displayedRecipient()
}

// addAskNote adds the message about the last post to the field that it concerns. t are the texts of
// the field's channel.
func (l *visit) addAskNote(k *card, t words) {
	f := k.Ask.field()
	if f == nil {
		return
	}
	n := l.session.Note
	switch n.Kind {
	case noteBadAddress:
		f.Error = cmp.Or(t["BadAddress."+n.Reason], t["BadAddressElse"])
		if n.Character != "" {
			f.Error += t["Separator"] + t.fill("BadCharacter", "character", n.Character)
		}
		if len(k.Ask.Choices) > 1 && slices.Contains([]string{"country_not_served", "voip", "number_not_allowed"},
			n.Reason) {
			f.Error += t["Separator"] + t["MailInstead"]
		}
		k.Say = f.Error
	case noteStaleForm:
		k.Note = &notice{"warn", t["Stale"]}
	case noteNotSent:
		k.Note = &notice{"warn", t["PressOnceMore"]}
		k.Say = k.Note.Text
	case noteTooManyChecks:
		k.Note = &notice{"bad", t["TooManyChecks"]}
		k.Say = k.Note.Text
	}
	if f.Error == "" {
		k.Typo = l.doubtAbout(k.Ask.Channel, f.Value, l.session.DraftOn == k.Ask.Channel)
	}
	f.Doubt = k.Typo
	if k.Typo != nil && (n.Kind == noteTypo || n.Kind == noteLandline) {
		k.Say = k.Typo.Question
	}
}

// field returns the field of the chosen channel; nil if the page has none.
func (f *askForm) field() *textField {
	if f.Channel == recipient.SMS && f.Phone != nil {
		return &f.Phone.textField
	}
	return f.Mail
}

// doubtAboutSent returns the suggestion for the recipient that a code was sent to; nil if there
// is none.
func (l *visit) doubtAboutSent() *suggestion {
	return l.doubtAbout(l.session.channelOrEmail(), l.session.To, false)
}

// doubtAbout returns a suggestion if the domain looks mistyped or the number is a landline's,
// else nil. draft says that no code was sent to the text yet.
func (l *visit) doubtAbout(on recipient.Channel, text string, draft bool) *suggestion {
	t := l.t.forChannel(on)
	if on == recipient.SMS {
		if l.session.Note.Kind != noteLandline {
			return nil
		}
		return &suggestion{Question: t["Landline"], AsIs: t["Separator"] + t["LandlineAsIs"], Sure: text, Draft: true}
	}
	better, ok := recipient.SuggestDomain(text)
	if !ok {
		return nil
	}
	_, domain, _ := strings.Cut(text, "@")
	_, meant, _ := strings.Cut(better, "@")
	return &suggestion{
		Question: t.fill("DidYouMean", "domain", meant), AsIs: t["Separator"] + t.fill("MeantAsIs", "domain", domain),
		Use: t.fill("UseInstead", "domain", meant), Sure: domain, Draft: draft,
	}
}
