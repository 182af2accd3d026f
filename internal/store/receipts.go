package store

import ()

// What a carrier says afterwards changes a send that went out, or may have: to Delivered, or to Undelivered. It never goes
// back from there: a repeated or late word changes nothing, but that a message which was told to be lost did arrive after
// all. Whatever it is, the send keeps its place in the quota; and it proves nothing of who holds the phone.

func CheckReceipt(status Status) error {
	if status != Delivered && status != Undelivered {
		return Bad("a receipt says delivered or undelivered")
	}
	return nil
}
