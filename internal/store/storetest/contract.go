// Package storetest is the contract of a store, as a kit: Run holds a database against it, RunGateSchedule holds its gate against a
// naive one.
package storetest

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// contract is what every database must do, by group. A case is named after its function, and gets an empty log.
var contract = map[string][]func(t *testing.T, f *Fixture){
	"begin": {beginWrites, refusalLeavesNothing, limiterOnceFarAhead, onlyBucketsSendsCount,
		historyReproducesDecision, repeatedBegin, badIntents, rejectionsOfARecipient, onlyRecipientsRejectionsCount,
		otherOutcomesAreNoRejections, rejectionsAndTheClock, sixtyCallers, MixedRecipients},
	"join": {joinByID, joinByHolder, joinNewest, joinOpens},
	"check": {attempts, guessesAtOnce, approvals, failuresOfARecipient, failuresApart, failuresByKind, failuresAfterTheRules,
		failuresInARow, failuresAtOnce, cancels, cancelOrApprove, redeemedOnce, newestOfHolder},
	"claim": {claims, claimsGivenUp, claimsEndAfterADay, claimsAtOnce},
	"flight": {finish, endTogether, postponeAndTakeOver, leaseRenewedThenTakenOver, firstToExpire, channelsTakenOverApart, takenOnce,
		staleAttempt, refundsLeasedAndConfirmed, noRefundInDoubt},
	"refused": {refusalsAddUp, refusalsShareARow, refusalTouchesNoSend, manyRefusals},
	"read": {readVerification, filters, filterByCodeState, pages, story, findBySupportReference, countingSends, bucketHistory,
		readMailServerRejections, heavyRecipients, sendsByID, latestOfMany, hostileTexts},
	"acts": {acts, actsOnce, cancelsBy},
	"suppressed": {suppressed, suppressedForAnApp, suppressedTakenOver, bounceSuppresses, bouncesTogether, suppressionList,
		suppressionActs, untriedAreFailures},
	"events": {eventOfASend, eventOfAnApproval, noEventUnlessAsked, eventsAmongOthers, eventLeases, eventShares, eventsOnce,
		eventsForgotten, eventPages},
	"accounts": {accounts, accountsAtOnce, sessions, secondFactors, secondFactorsAtOnce},
	"forgive":  {forgives, forgivesNothingElse, forgivesUnderWay},
	"erase":    {erases, eraseFreesNothing, erasesUnderWay, forgets, forgottenAreDistinct, erasedAndSuppressed},
	"stats":    {statsOfTimeRange, daysOfZone, lostTextsCounted},
	"expire":   {expires, expiresWithVerification, expiresAtOnce},
	"spending": {spendTogether, spendPeriods, spendInParallel},
	"embargo":  {carrierHolds},
	"heard":    {providerEvents, providerEventsSuppress, providerEventsAtOnce, providerEventsExpire},
	"receipts": {receipts, pollsBackOffAndEnd, duePollsShared, receiptFirst, receiptsForNothing},
	"watch": {watchPauses, watchCounts, watchSlides, watchKnowsWhatIsUsual, watchGrowsStricter, watchLifted, watchedAtOnce, watchList,
		storyNamesThePause},
	"turn": {leaseOfOneReplica},
	"partitions": {driftedIDs, driftedRefusals, windowOverMonths, pagesOverMonths, idleReplicaSeesOthers,
		storageStatus},
	"end": {callsAfterCancelAndClose},
}

// Run holds a database against the groups of cases that are named; against all, where none is. open gives each case an empty one.
func Run(t *testing.T, open func(t *testing.T) *Fixture, groups ...string) {
	for group, cases := range contract {
		if len(groups) > 0 && !slices.Contains(groups, group) {
			continue
		}
		for _, run := range cases {
			name := runtime.FuncForPC(reflect.ValueOf(run).Pointer()).Name()
			t.Run(group+"/"+name[strings.LastIndex(name, ".")+1:], func(t *testing.T) {
				t.Parallel()
				run(t, open(t))
			})
		}
	}
}
