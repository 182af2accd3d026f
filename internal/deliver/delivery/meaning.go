package delivery

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Meaning is the reason that the words of a refusal give.
type Meaning string

const (
	NoMeaning      Meaning = ""
	MissingMailbox Meaning = "missing" // there is no such mailbox
	AnotherReason  Meaning = "other"   // policy, quota, rate, a block list, spam, a full mailbox
	RefusedSender  Meaning = "sender"  // the sender's address is refused
	TooFast        Meaning = "fast"    // too many mails in a second or a minute: the server will soon accept the same mail
)

// MeaningOf returns the meaning of a reply's words, which must not be redacted yet. It ignores
// hosts and URLs, and takes an address only as a noun for the mailbox, because an address such as
// spam@example.com says nothing about the reason. A reply may say that the mailbox is missing and
// also name another reason. A clear phrase for another reason then decides, and a weak one
// (weakReasons) does not.
func MeaningOf(reply string) Meaning {
	reply = strings.ToLower(reply[:min(len(reply), maxReplyBytes)])
	text := plainWords(notWords.ReplaceAllStringFunc(reply, func(token string) string {
		switch {
		case strings.Contains(token, "@") && !strings.Contains(token, "/"):
			return " " + anAddress + " "
		case isPublicHostName(token) || !hostLike.MatchString(token):
			return " "
		}
		return token
	}))
	for _, phrase := range noReasons {
		text = strings.ReplaceAll(text, phrase, " ")
	}
	switch {
	case containsAny(text, tooFast):
		return TooFast
	case containsAny(text, refusedSender):
		return RefusedSender
	case containsAny(text, otherReasons):
		return AnotherReason
	case containsAny(text, missing) || containsPair(text, mailboxes, missingAfter, 6) ||
		containsPair(text, mailboxes, invalid, 3) || containsPair(text, missingBefore, mailboxes, 2):
		return MissingMailbox
	case containsAny(text, weakReasons) || blockLists.MatchString(reply):
		return AnotherReason
	}
	return NoMeaning
}

var (
	// notWords are URLs, addresses, values such as relay=host, and hosts.
	notWords   = regexp.MustCompile(`https?://\S+|www\.\S+|[^\s<>()\[\]"':;,]+@[^\s<>()\[\]"':;,]+|\w+=\S+|(?:[\w-]+\.)+[a-z][\w-]+`)
	hostLike   = regexp.MustCompile(`^[\w.-]+$`)
	blockLists = regexp.MustCompile(`spamhaus|spamcop|dnsbl|\brbl\b|uribl|surbl`)
)

// anAddress replaces each address of a reply, as one of the nouns in mailboxes.
const anAddress = "rcpt"

// These are tables of phrases, without accents and punctuation, because plainWords removes both
// from a reply. "*" stands for any ending of a word. Chinese and Japanese have no blanks between
// words, so their phrases match anywhere.
var (
	// noReasons are removed first. They sound like another reason or a missing mailbox but mean
	// neither, such as the name of a list of recipients, or Exchange Online's "access denied" for
	// an address that its directory lacks.
	noReasons = phrases("relay recipient table, not listed, address rejected access denied, unknown error, unknown reason, unknown host, " +
		"reason unknown, cause unknown, invalid message, invalid header, invalid command, invalid response")

	tooFast = phrases("per second, per minute")

	refusedSender = phrases("sender address rejected, sender verify failed") // Postfix and Exim

	otherReasons = phrases(
		// full
		"full, quota*, overquota, storage, space, disk, insufficient, exceed*, llen*, cuota, espacio, plein*, voll, uberfullt, kontingent, "+
			"speicher*, cheia, cheio, cota, espaco, pien*, переполнен*, квот*, 满, 滿, 空间, 空間, 配额, 配額, 容量, いっぱい",
		// rate, limit, load
		"rate, rates, ratelimit*, limit*, hour*, daily, maximum, too many, too much, too fast, too frequent*, frequen*, throttl*, concurrent, "+
			"connections, busy, overload*, resources, trop de, depass*, zu viele, uberschritten, ueberschritten, grenze, demasiad*, excedid*, muit*, лимит*, превыш*, "+
			"ограничен*, слишком, 频率, 頻率, 限制, 超过, 超過, 超出, 过多, 過多, 太多, 频繁, 頻繁, 上限, 制限, 混雑",
		// for now
		"temporar*, later, greylist*, graylist*, grey list*, gray list*, defer*, timeout, timed out, maintenance, ldap, "+
			"lookup fail*, lookup error, internal error, server error, local error, dns error, configuration*, misconfigur*, old, plus tard, "+
			"ulterieurement, spater, spaeter, vorubergehend*, voruebergehend*, mas tarde, temporal*, mais tarde, позже, временн*, 稍后, 稍後, 暂时, 暫時, 一時的, しばらく",
		// sender
		"sender*, originat*, mail from, mailfrom, return path, envelope from, from address, from header, helo, ehlo, your ip, your domain, your server, "+
			"your host*, your account, hostname, fully qualified, expediteur*, emetteur*, absender*, remitente*, remetente*, mittente*, отправител*, вашего сервера, не принима*, 发件, 發件, 寄件, 送信者, 送信元, 差出人",
		// authentication, encryption
		"spf, dkim, dmarc, arc, auth*, unauth*, login, password, credential*, spoof*, forged, forgery, tls, starttls, ssl, certificate, encrypt*, "+
			"identities, not verified, verify failed, verify sender, callout, authentifi*, verschlussel*, autentic*, аутентиф*, 认证, 認證, 認証, なりすまし",
		// reputation, block lists
		"reputation, score, rp, dt, blocked, blocking, block, blocks, blocklist*, blackl*, black list*, banned, listed, listing, rbl, dnsbl, uribl, surbl, dbl, "+
			"sbl, barracuda, mimecast, proofpoint, cloudmark, bloqu*, liste noire, sperr*, gesperrt, blockier*, lista negra, reputa*, заблокир*, блокир*, "+
			"репутац*, черн*, 黑名单, 黑名單, 信誉, 信譽, 屏蔽, 封禁, ブロック",
		// spam, content
		"spam*, junk, bulk, masiv*, massiv*, unsolicited, suspicio*, suspected, phish*, malware, virus*, content, attachment*, abus*, complain*, too large, too big, too long, size, "+
			"pourriel, indesirable*, contenu, taille, unerwunscht*, inhalt*, zu gross, no deseado, contenido, tamano, lixo, conteudo, tamanho, "+
			"спам*, вирус*, 垃圾, 病毒, 内容, 內容, 大小, 迷惑メール, スパム, ウイルス",
		// policy, permission
		"policy, policies, aup, rule, rules, filter*, preferences, violat*, prohibit*, administrative*, restrict*, forbidden, denied, permission*, "+
			"permitted, not allowed, allowed rcpthosts, whitelist*, allowlist*, security, member*, moderat*, sandbox, suspend*, politique*, securite, richtlinie*, politica*, "+
			"permis*, permitid*, autoris*, autoriz*, политик*, запрещ*, 策略, 政策, ポリシー",
		// relay, host, network
		"relay*, loop, loops, hops, client, ip, ptr, dns, rdns, reverse, network, country, relais, 中继, 中繼, 转发, 轉發")

	// weakReasons give way to a phrase for a missing mailbox.
	weakReasons = phrases("拒绝, 拒絕, 拒收, 拒否")

	// missing has phrases for a missing mailbox that need none of the nouns in mailboxes before or
	// after them.
	missing = phrases("no longer valid, no longer exists, no longer exist, no longer in use, no longer here, no longer with, no longer employed, " +
		"no longer on server, no longer works, no mailbox found, no mailbox here, no user found, no user here, no account found, no account here, by that name, not our customer, unrouteable*, unroutable*, no such address, no such domain, unknown domain, " +
		"recipientnotfound, recipnotfound, exrecipnotfound, usernotfound, nosuchuser, invalidrecipient, userunknown, " +
		"account deleted, account was deleted, account has been deleted, mailbox deleted, mailbox was deleted, mailbox has been deleted, user deleted, " +
		"user was deleted, user has been deleted, 不存在, 无此, 無此, 查无, 查無, 找不到, 没有找到, 沒有找到, 无效, 無效, 未知用户, 存在しま, 存在しない, 見つかりま, 見つからな, 不明, 無効, 該当する")

	// mailboxes are the nouns that missingAfter and invalid follow, and that missingBefore
	// precedes.
	mailboxes = phrases(anAddress +
		", user*, mailbox*, recipient*, address*, addressee*, account*, alias*, customer*, email*, e mail, inbox, person, " +
		"local part, utilisateur*, lutilisateur, ladresse, destinataire*, adress*, boite*, compte, empfanger*, empfaenger*, postfach*, benutzer*, konto, nutzer*, usuari*, " +
		"destinatari*, buzon, cuenta, direccion, casilla, utilizador*, caixa, conta, endereco, utente, casella, indirizzo, gebruiker, ontvanger, " +
		"пользовател*, ящик*, адрес*, получател*, аккаунт*, учетн*")

	missingAfter = phrases("unknown, not found, not be found, couldnt be found, cannot be found, nonexistent, non existent, not known, " +
		"not recognized, not recognised, not be recognized, not exist*, doesnt exist, didnt exist, no longer valid, " +
		"no longer exist*, no longer active, not have an, doesnt have an, doesnt have, not present, not in our, unallocated, unassigned, not local, " +
		"undeliverable, inconnu*, nexiste, introuvable*, inexistant*, unbekannt*, existiert nicht, existiert hier nicht, nicht gefunden, " +
		"nicht vorhanden, nicht bekannt, gibt es nicht, desconocid*, no existe*, no encontrad*, no se encontr*, no se ha encontrado, inexistente*, " +
		"desconhecid*, nao existe*, nao encontrad*, nao foi encontrad*, sconosciut*, non esiste, non trovat*, inesistente*, non valid*, " +
		"onbekend, bestaat niet, не существ*, не найден*, неизвест*, удален*, не зарегистрирован*")

	// invalid must follow a noun for a mailbox more closely than missingAfter. Farther away, such a
	// phrase may belong to another noun.
	invalid = phrases("invalid*, not valid, not a valid, is wrong, ungultig*, ungueltig*, no es valid*, non valid*, nest pas valid*, недействител*")

	missingBefore = phrases("no such, no such local, no such mail, no such virtual, unknown, invalid, nonexistent, non existent, undeliverable, wrong, bad, " +
		"not a valid, not a known, not a local, no valid, no local, not valid, cannot find, could not find, couldnt find, there is no, have no, " +
		"inconnu*, invalide*, aucun, aucune, kein, keine, unbekannt*, ungultig*, ungueltig*, no existe*, desconocid*, desconhecid*, nao existe*, sconosciut*, нет такого, " +
		"неизвестн*, несуществ*, недействительн*")
)

// phrases splits lists at commas, and gives each phrase the form of plainWords.
func phrases(lists ...string) (all []string) {
	for phrase := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		words := plainWords(phrase)
		switch {
		case unicode.In([]rune(words)[1], unicode.Han, unicode.Hiragana, unicode.Katakana):
			words = strings.TrimSpace(words)
		case strings.HasSuffix(phrase, "*"):
			words = strings.TrimSuffix(words, " ")
		}
		all = append(all, words)
	}
	return all
}

// plainWords removes accents, apostrophes and punctuation. It puts one blank between words, and one
// at each end, so that a phrase matches only whole words.
func plainWords(text string) string {
	fields := strings.FieldsFunc(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) || r == '\'' || r == '’' {
			return -1
		}
		return r
	}, norm.NFD.String(text)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return " " + strings.Join(fields, " ") + " "
}

func containsAny(text string, phrases []string) bool {
	return slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(text, phrase) })
}

// containsPair reports whether a phrase of then follows one of first, with at most gap words
// between them.
func containsPair(text string, first, then []string, gap int) bool {
	for _, phrase := range first {
		for rest, found := cutAfter(text, phrase); found; rest, found = cutAfter(rest, phrase) {
			words := strings.SplitAfterN(rest, " ", gap+3)
			for n := range min(gap+1, len(words)) {
				for _, second := range then {
					if strings.HasPrefix(" "+strings.Join(words[n:], ""), second) {
						return true
					}
				}
			}
		}
	}
	return false
}

// cutAfter returns the text from the first word after a phrase.
func cutAfter(text, phrase string) (rest string, found bool) {
	_, rest, found = strings.Cut(text, phrase)
	if found && !strings.HasSuffix(phrase, " ") {
		_, rest, _ = strings.Cut(rest, " ")
	}
	return rest, found
}
