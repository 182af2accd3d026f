package smtp_test

import (
	"testing"
	"testing/synctest"
	"time"

	"sendcode/internal/delivery/smtp"
	"sendcode/internal/delivery/smtptest"
	"sendcode/internal/failover"
	"sendcode/internal/servertest"
)

// inTenSeconds gives every answer late.
func inTenSeconds() (s smtptest.Script) {
	for _, stage := range []smtptest.Stage{smtptest.Greet, smtptest.Hello, smtptest.Mail, smtptest.Rcpt, smtptest.Data, smtptest.Dot} {
		s.Rules = append(s.Rules, smtptest.Rule{Stage: stage, Delay: 10 * time.Second})
	}
	return s
}

// TestPaceWithOneSlowServer: whatever the slow one does, the other's pace is the pace of the whole.
func TestPaceWithOneSlowServer(t *testing.T) {
	const mails, alone = 300, 300 / 4 * 100 * time.Millisecond // over four connections
	for name, slow := range map[string]smtptest.Script{
		"after the dot": misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 10 * time.Second}), "every answer": inTenSeconds(),
	} {
		servertest.Bubble(t, func(t *testing.T) {
			servers, first, healthy := pair(t, slow, misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 100 * time.Millisecond}))
			began, failures := time.Now(), make(chan []error)
			go func() { failures <- post(t, servers, 1, mails) }()
			healthy.Await(mails - 30)
			if took := time.Since(began); took > alone+6*time.Second {
				t.Errorf("%s: the healthy server took %v, alone %v", name, took, alone)
			}
			if all := <-failures; all != nil {
				t.Errorf("%s: %d failures: %v", name, len(all), all[0])
			}
			allOnce(t, mails, first, healthy)
		})
	}
}

// TestSlowButAlone: slowness is held against a server only while another one is up.
func TestSlowButAlone(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		slow := smtptest.New(t, inTenSeconds())
		servers := smtp.Servers{piped(t, slow)}
		if failures := post(t, servers, 1, 16); failures != nil || !servers.Health()[0].Up {
			t.Errorf("%v, %+v", failures, servers.Health())
		}
		allOnce(t, 16, slow)
	})
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, inTenSeconds(), inTenSeconds())
		if failures := post(t, servers, 1, 64); failures != nil {
			t.Errorf("%v", failures)
		}
		allOnce(t, 64, first, second)
	})
}

// TestSlowOneAfterTheOther: an answer that comes at last does not undo what was held against the server.
func TestSlowOneAfterTheOther(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, misbehaving(smtptest.Rule{Stage: smtptest.Dot, Delay: 8 * time.Second}), smtptest.Script{})
		for n := range 4 {
			if _, err := servers.Send(t.Context(), smtptest.Sample(n)); err != nil {
				t.Fatal(err)
			}
		}
		if len(first.Messages()) != 3 || len(second.Messages()) != 1 {
			t.Errorf("%d and %d mails, want 3 and 1", len(first.Messages()), len(second.Messages()))
		}
	})
}

// TestCrowdGoesOn: who finds every connection of a server in use waits a second, no longer, while another is up.
func TestCrowdGoesOn(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, second := pair(t, inTenSeconds(), smtptest.Script{})
		go post(t, servers, 1, 16)
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		if n := len(second.Messages()); n != 0 {
			t.Errorf("%d mails went elsewhere at once", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := len(second.Messages()); n != 12 {
			t.Errorf("%d mails went elsewhere after a second, want 12", n)
		}
		time.Sleep(time.Minute)
		allOnce(t, 16, first, second)
	})
}

// TestWatch hears of each change once, with its reason.
func TestWatch(t *testing.T) {
	servertest.Bubble(t, func(t *testing.T) {
		servers, first, _ := pair(t, misbehaving(smtptest.Rule{Stage: smtptest.Rcpt, Reply: blabbing("421 4.3.2")}), smtptest.Script{})
		var heard []failover.Health
		servers.Watch(func(h failover.Health) { heard = append(heard, h) })
		post(t, servers, 1, 50)
		first.SetScript(smtptest.Script{})
		time.Sleep(6 * time.Second)
		post(t, servers, 51, 50)
		if len(heard) != 2 || heard[0].Up || heard[0].Why != "rcpt: temporary: 421 4.3.2" || !heard[1].Up || heard[1].Why != "" {
			t.Errorf("heard %+v", heard)
		}
		if !heard[0].Since.Before(heard[1].Since) {
			t.Errorf("since %v, then %v", heard[0].Since, heard[1].Since)
		}
	})
}
