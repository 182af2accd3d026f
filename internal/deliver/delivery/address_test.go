package delivery_test

import (
	"fmt"
	"strings"
	"testing"

	"sendcode/internal/deliver/delivery"
)

// Each line is a final refusal in the words of a server: stage, code and enhanced code, verdict on
// the address, and text. "missing": there is no such mailbox. "bad": the address accepts no
// messages. "other": neither of these.
const refusals = `
rcpt 550 5.1.1 missing
rcpt 550 - missing L'utilisateur n'existe pas
rcpt 550 - missing unroutable mail domain "example.com"
rcpt 550 5.1.1 other Envío masivo no permitido
rcpt 550 5.1.1 other Адресат не принимает письма с вашего сервера
rcpt 550 5.1.1 other Only members may post to this list
rcpt 550 5.1.1 missing <spam@policy.example>: Recipient address rejected: User unknown in virtual mailbox table
rcpt 550 5.1.1 missing <a@example.com>: Recipient address rejected: User unknown in relay recipient table
rcpt 550 5.1.1 missing User a is not listed in the directory of example.com
rcpt 550 5.1.2 missing bad destination system
rcpt 550 5.1.3 missing this is no address
dot 550 5.1.10 missing RESOLVER.ADR.RecipientNotFound; not found
data 550 5.1.1 missing no such user
rcpt 550 - missing No such user here
rcpt 550 - missing user unknown
rcpt 550 - missing Unrouteable address
rcpt 550 - missing unknown local-part "a" in domain "example.com"
rcpt 550 - missing sorry, no mailbox here by that name
rcpt 550 - missing That is not a valid mailbox
rcpt 550 - missing Utilisateur inconnu
rcpt 550 - missing Empfaenger unbekannt
rcpt 550 - missing usuario desconocido
rcpt 550 - missing El buzón no existe
rcpt 550 - missing 收件人不存在
rcpt 550 5.0.0 missing no such recipient
rcpt 550 5.5.0 missing the mailbox was not found
rcpt 554 - missing delivery error: This user doesn't have an account at example.com
dot 554 - missing the recipient a@example.com does not exist
rcpt 551 - missing not a local user
rcpt 550 5.1.1 missing There is no account at this address. Look for typos or spaces in it, then try again. - gsmtp
rcpt 550 5.1.1 missing RESOLVER.ADR.ExRecipNotFound; not found
rcpt 550 5.1.10 missing The recipient was not found by a lookup of its address
rcpt 550 5.1.1 missing a@icloud.example: user does not exist
rcpt 550 5.1.1 missing Not our customer
rcpt 550 5.1.1 missing Adresse d'au moins un destinataire invalide. OFR_416 [416]
rcpt 550 5.1.6 missing The recipient is no longer on this server
rcpt 550 - missing cuda_nsu 5.1.1 a@example.com... User unknown
rcpt 550 - missing Invalid Recipient - https://community.example.com/docs/policy#550 [k3F]
rcpt 550 - missing The email account that you tried to reach does not exist
rcpt 550 - missing Message was not accepted -- invalid mailbox. Local mailbox a@example.ru is unavailable: user not found
rcpt 550 - missing No such person at this address
rcpt 550 - missing RCPT a@example.com does not exist
rcpt 550 - missing The account has been deleted
rcpt 550 - missing not a known user
rcpt 550 - missing Mailbox not found; see http://mail.example.cn/help?spam=1
rcpt 550 - missing could not find user a
rcpt 550 - missing Destinataire introuvable
rcpt 550 - missing Aucun compte à cette adresse
rcpt 550 - missing Der Empfänger existiert nicht
rcpt 550 - missing Ungültige Empfängeradresse
rcpt 550 - missing Das Postfach ist nicht vorhanden
rcpt 550 - missing Kein Benutzer mit diesem Namen
rcpt 550 - missing No existe ese usuario
rcpt 550 - missing Destinatario no encontrado
rcpt 550 - missing La cuenta no existe
rcpt 550 - missing Usuário desconhecido
rcpt 550 - missing O endereço não existe
rcpt 550 - missing Caixa postal inexistente
rcpt 550 - missing Utente sconosciuto
rcpt 550 - missing Пользователь не найден
rcpt 550 - missing Почтовый ящик не существует
rcpt 550 - missing Нет такого пользователя
rcpt 550 - missing 用户不存在
rcpt 550 - missing 收件人地址无效，已拒绝
rcpt 550 - missing 找不到該使用者
rcpt 550 - missing 宛先のメールアドレスが存在しません
rcpt 550 - missing ユーザーが見つかりませんでした
rcpt 550 - missing 宛先不明
rcpt 550 5.2.1 bad a@example.net... Addressee unknown, relay=[192.0.2.1]
rcpt 550 - bad cuda_nsu 5.4.1 [a@example.com]: Recipient address rejected: Access denied
rcpt 550 - bad Requested action not taken: mailbox unavailable. See http://postmaster.example.com/error?ip=192.0.2.1&c=rmvd
rcpt 550 5.2.1 bad The email account is disabled.
rcpt 550 5.4.1 bad Recipient address rejected: Access denied. AS(201806281)
rcpt 550 5.5.0 bad Requested action not taken: mailbox unavailable
rcpt 550 - bad
mail 550 5.1.1 other no recipient was named yet
rcpt 550 5.1.0 other
rcpt 550 5.1.0 other <a@example.com> sender rejected, see AUP#1
rcpt 550 5.1.7 other Sender address rejected: undeliverable address
rcpt 550 5.1.8 other Sender address rejected: Domain not found
rcpt 550 5.1.90 other Your message was refused: the daily limit for recipients is reached
rcpt 552 5.1.1 other La boite du destinataire est pleine
rcpt 552 5.1.1 other the recipient is overquota
rcpt 550 5.1.1 other Mailbox full
rcpt 550 5.1.1 other rejected as spam
rcpt 550 5.1.1 other the rate of your messages is too high
rcpt 550 5.1.1 other the account is temporarily closed
rcpt 550 5.1.2 other refused by our policy
rcpt 550 5.1.3 other DMARC
rcpt 550 5.1.1 other The user is receiving mail too fast
rcpt 550 5.1.1 other Trop de connexions, veuillez réessayer plus tard. OFR_506
rcpt 550 5.1.1 other LDAP lookup failure
rcpt 550 5.1.1 other Timed out while we looked for the user
rcpt 550 5.1.1 other Your group does not exist, or you lack permission to post to it
rcpt 550 5.1.1 other recipient rejected. AUP#In-1310
rcpt 550 5.1.1 other client refused: low sender score
rcpt 550 5.1.1 other STARTTLS comes first
rcpt 550 5.1.1 other You are greylisted; come back in a minute
rcpt 550 5.1.1 other Buzón lleno
rcpt 550 5.1.1 other A caixa postal está cheia
rcpt 550 5.1.1 other Почтовый ящик переполнен
rcpt 550 5.1.1 other 收件人邮箱空间不足
rcpt 550 5.1.1 other 发件人被列入黑名单，用户不存在
rcpt 550 5.1.1 other Absender unbekannt
rcpt 550 5.1.1 other Remitente desconocido
rcpt 550 5.1.1 other Émetteur invalide
rcpt 550 5.1.1 other Отправитель неизвестен
rcpt 550 5.1.1 other IP 发送频率过高
rcpt 550 5.1.1 other Mensagem rejeitada pela política do servidor
dot 554 - other Email address is not verified. These identities failed the check: shop@example.com
dot 554 - other Message not allowed - [PH01] refused for policy reasons
rcpt 550 - other Envelope blocked - User Entry
rcpt 550 - other Rejected by header based Anti-Spoofing policy
rcpt 550 - other The recipient's preferences refuse this mail
rcpt 553 - other sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)
rcpt 550 - other Доступ запрещён
rcpt 550 - other DNSBL: unknown user
rcpt 552 5.2.2 other The recipient's inbox is out of storage.
rcpt 550 5.2.2 other
rcpt 550 5.2.1 other The user is receiving mail at a rate that prevents delivery
rcpt 550 5.3.0 other
rcpt 550 5.4.4 other
rcpt 550 5.5.1 other
rcpt 550 5.7.1 other no such user
rcpt 550 5.7.23 other SPF check failed
rcpt 550 - other SPF-check failed: 550 see the record
rcpt 550 - other relay not permitted
rcpt 550 - other Administrative prohibition
rcpt 550 - other Verification failed ... Sender verify failed: no such user
rcpt 550 - other rejected because 192.0.2.1 is in a blacklist at zen.spamhaus.org
rcpt 550 - other found in dnsbl.example.org
rcpt 550 - other rejecting spoofed message
rcpt 550 - other permanent failure for one or more recipients (a@example.com:blocked)
rcpt 550 - other LOCAL POLICY
rcpt 550 - other Das Postfach ist voll
rcpt 550 - other 邮箱已满
rcpt 553 - other not in my list of hosts
rcpt 503 5.1.1 other
data 503 - other no valid recipients
mail 550 - other mailbox unavailable
dot 550 - other mailbox unavailable
`

// BadAddress and NoMailbox agree with the verdict of each line. With a status 4xx, the same reply
// is Temporary and not about the address.
func TestBadAddressAndNoMailbox(t *testing.T) {
	for line := range strings.Lines(strings.TrimSpace(refusals)) {
		var stage, code, want string
		var status int
		if _, err := fmt.Sscan(line, &stage, &status, &code, &want); err != nil {
			t.Fatal(line, err)
		}
		code = strings.TrimPrefix(code, "-")
		_, words, _ := strings.Cut(line, " "+want)
		e := delivery.ErrorByReply(stage, status, code, delivery.MeaningOf(words))
		got := map[[2]bool]string{{true, true}: "missing", {true, false}: "bad", {}: "other"}[[2]bool{e.BadAddress(), e.NoMailbox()}]
		if got != want || e.Class != delivery.Rejected {
			t.Errorf("%s: %s, %s", strings.TrimSpace(line), got, e.Class)
		}
		e = delivery.ErrorByReply(stage, status-100, strings.Replace(code, "5.", "4.", 1), delivery.MeaningOf(words))
		if e.BadAddress() || e.NoMailbox() || e.Class != delivery.Temporary {
			t.Errorf("%s, but for now: is about the address", line)
		}
	}
}
