package layout

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"sendcode/internal/base/recipient"
	"sendcode/internal/base/texts"
)

// MenuEntry is an entry of the layout's menu. The key of its text is "nav." + Name.
type MenuEntry struct {
	Name, Path string
	More       bool // the entry is in the submenu "More"
}

// MenuEntries are the menu, in its order.
var MenuEntries = []MenuEntry{
	{Name: "sends", Path: "/admin"},
	{Name: "overview", Path: "/admin/overview"},
	{Name: "policies", Path: "/admin/policies"},
	{Name: "messages", Path: "/admin/messages", More: true},
	{Name: "suppressions", Path: "/admin/suppressions", More: true},
	{Name: "prefixes", Path: "/admin/prefixes", More: true},
	{Name: "webhooks", Path: "/admin/webhooks", More: true},
	{Name: "acts", Path: "/admin/acts", More: true},
	{Name: "accounts", Path: "/admin/accounts", More: true},
	{Name: "factor", Path: "/admin/factor", More: true},
}

// Page has the fields that the layout reads on every page.
type Page struct {
	W             texts.Words
	Title         string
	AccountName   string // the account that is logged in; empty: none
	Role          string // the role of the account, in words
	MenuName      string // name of the page's entry in the menu; empty: the page is not in the menu
	ReturnAddress string // the page to show after a change of language or zone

	RedirectAddress string      // the page that this page opens by itself at once; empty: none
	Health          *statusLine // the state of the service; nil: the reader is not logged in
}

// statusLine returns the line that Show fills in.
func (p Page) statusLine() *statusLine { return p.Health }

// NewPage returns the common fields of a page. title is the key of the page's title. menuName is
// the name of the page's entry in the menu, or "" if the page is not in the menu.
func NewPage(c echo.Context, title, menuName string) Page {
	w := Words(c)
	p := Page{W: w, Title: w.Get(title), MenuName: menuName, ReturnAddress: homePath}
	if r, ok := c.Get(accountContextKey).(account); ok {
		p.AccountName, p.Role, p.Health = r.name, w.Or("role", r.role), &statusLine{W: w}
		if c.Request().Method == http.MethodGet { // a form's response has no address to come back to
			p.ReturnAddress = c.Request().URL.RequestURI()
		}
	}
	return p
}

// Sections returns the menu's entries.
func (p Page) Sections() []MenuEntry { return MenuEntries }

// InMoreMenu reports whether the page is in the submenu "More".
func (p Page) InMoreMenu() bool {
	return slices.ContainsFunc(MenuEntries, func(s MenuEntry) bool { return s.More && s.Name == p.MenuName })
}

// Zone returns the offset of the page's times from UTC at this moment, such as "UTC+8".
func (p Page) Zone() string { return p.W.UTCOffset(time.Now()) }

// Languages returns the languages in which the page is available, except the page's own.
func (p Page) Languages() (others []texts.Words) {
	for _, w := range texts.ConsoleLanguages() {
		if w.Lang() != p.W.Lang() {
			others = append(others, w)
		}
	}
	return others
}

// account is what SetAccount stores for NewPage.
type account struct{ name, role string }

const accountContextKey = "sendcode.admin.reader"

// SetAccount stores the request's account, which the page's layout shows.
func SetAccount(c echo.Context, name, role string) { c.Set(accountContextKey, account{name, role}) }

// The cookies languageCookie and zoneCookie have the language and the time zone that a reader
// chose. The cookie ownZoneCookie has the browser's own zone. The server does not know that zone,
// so a script in each page sets this cookie.
const (
	languageCookie  = "sendcode_language"
	zoneCookie      = "sendcode_chosen_zone" // not sendcode_zone, in which older versions kept the browser's zone for a year
	ownZoneCookie   = "sendcode_browser_zone"
	preferencesPath = "/admin/prefer"
	browsersZone    = "local" // the value of a form's zone with which pages follow the browser's zone again
	homePath        = "/admin"
	preferenceLife  = 365 * 24 * time.Hour
)

// Words returns the texts for the reader. They are in the language that the reader chose, or else
// in the browser's language, or else in English. Times are in the zone that the reader chose, or
// else in the browser's zone, or else in UTC.
func Words(c echo.Context) texts.Words {
	w := texts.ConsoleTextsFor(c.Request().Header.Get("Accept-Language"))
	if chosen, ok := texts.ConsoleByTag(cookieValue(c, languageCookie)); ok {
		w = chosen
	}
	for _, cookie := range []string{zoneCookie, ownZoneCookie} {
		if zone, ok := loadZone(cookieValue(c, cookie)); ok {
			return w.WithZone(zone)
		}
	}
	return w
}

// cookieValue returns the unescaped value of a cookie; "" if it is missing.
func cookieValue(c echo.Context, name string) string {
	found, err := c.Cookie(name)
	if err != nil {
		return ""
	}
	value, err := url.QueryUnescape(found.Value)
	if err != nil {
		return ""
	}
	return value
}

// loadZone loads a zone of the time zone database. It returns false for an unknown zone. It also
// returns false for "Local", because this is the zone of the server's machine and not of the
// reader.
func loadZone(name string) (*time.Location, bool) {
	if name == "" || name == "Local" || len(name) > 64 {
		return nil, false
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

// savePreferences stores the language or the zone in the form. Then it redirects to the page from
// which the form was sent.
func savePreferences(c echo.Context, form url.Values) error {
	if _, ok := texts.ConsoleByTag(form.Get("language")); ok {
		setPreferenceCookie(c, languageCookie, form.Get("language"), preferenceLife)
	}
	zone := form.Get("zone")
	if zone == browsersZone || zone != "" && zone == cookieValue(c, ownZoneCookie) {
		setPreferenceCookie(c, zoneCookie, zone, -time.Second)
	} else if _, ok := loadZone(zone); ok {
		setPreferenceCookie(c, zoneCookie, zone, preferenceLife)
	}
	back := form.Get("back")
	if u, err := url.Parse(back); err != nil || u.IsAbs() || u.Host != "" ||
		u.Path != homePath && !strings.HasPrefix(u.Path, homePath+"/") {
		back = homePath
	}
	return c.Redirect(http.StatusSeeOther, back)
}

// setPreferenceCookie stores a preference. A negative life deletes it.
func setPreferenceCookie(c echo.Context, name, value string, life time.Duration) {
	c.SetCookie(&http.Cookie{
		Name: name, Value: url.QueryEscape(value), Path: homePath, MaxAge: int(life / time.Second),
		Secure: c.Scheme() == "https", SameSite: http.SameSiteLaxMode,
	})
}

// searchedCookie has the recipient of the last search that found no rows, masked. The page shows
// this recipient, but its address has only the recipient's hash. The cookie lives for searchedLife.
const (
	searchedCookie = "sendcode_searched"
	searchedLife   = 10 * time.Minute
)

// RememberSearched keeps a masked recipient for the page that a search leads to.
func RememberSearched(c echo.Context, h recipient.Hash, masked string) {
	c.SetCookie(&http.Cookie{
		Name: searchedCookie, Value: h.String() + url.QueryEscape(masked), Path: homePath, MaxAge: int(searchedLife / time.Second),
		Secure: c.Scheme() == "https", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// Searched returns the masked recipient that RememberSearched kept for the hash; "" if there is
// none.
func Searched(c echo.Context, h recipient.Hash) string {
	kept, err := c.Cookie(searchedCookie)
	if err != nil {
		return ""
	}
	escaped, found := strings.CutPrefix(kept.Value, h.String())
	masked, err := url.QueryUnescape(escaped)
	if !found || err != nil || !utf8.ValidString(masked) {
		return ""
	}
	return masked
}
