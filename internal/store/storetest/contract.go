// Package storetest has the tests of the store's contract: Run runs them on a database.
package storetest

import (
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// contract has the cases that every database must pass, by group. A case has the name of its
// function, and gets an empty database.
var contract = map[string][]func(t *testing.T, f *Fixture){
	"begin": {
		beginWrites, onlyBucketsSendsCount, repeatedBegin, badIntents,
		rejectionsOfARecipient, onlyRecipientsRejectionsCount, mixedRecipients,
	},
	"join": {joins, strangersJoinNone, holdersSendsCount},
	"check": {
		guessesAtOnce, checksAreKept, checksWithKeys, failuresOfARecipient, failuresApart, failuresByClass, failuresInARow,
		cancelOrApprove, redeemedOnce, newestOfHolder,
	},
	"report": {reportsOfCallers, reportsByRecipient, reportsOfRecipients},
	"claim":  {claimsGivenUp, claimsEndAfterADay, claimsAtOnce},
	"flight": {
		finish, endTogether, postponeAndTakeOver, firstToExpire, queuesApart, takeOverWithExpiredCode, callersCode,
		refundsAreLeased, takenOnce, historySaysWhatIsInFlight,
	},
	"refused": {refusalsAddUp, manyRefusals},
	"read": {
		story, historyOfVerifications, findBySupportReference,
		readFailedSends,
		hostileTexts, codeStates,
	},
	"acts": {acts, actsOnce, cancelsBy},
	"suppressed": {
		bounceSuppresses, suppressionList, suppressionEnds, suppressionActs, evidenceInAnyOrder, approvalLifts, burstIsNotBelieved,
	},
	"events":   {eventOfASend, eventShares, eventAttempts, eventsOnce, eventsOfExpiry},
	"accounts": {accounts, accountsAtOnce, sessions, secondFactors, secondFactorsAtOnce},
	"limiter":  {keepsLimiterEvents, limiterEventsOfReplicas},
	"reset":    {resetsCounters, resetsNothingElse},
	"erase": {
		erases, erasesWhatComesLate, erasesDuringWrites, eraseFreesNothing, forgets, forgottenAreDistinct, erasedAndSuppressed,
		exportsAPerson,
	},
	"reseal":          {reseals},
	"keys":            {keysAreChecked, otherKeysAtOnce, keysOfCodes},
	"stats":           {statsOfTimeRange, daysOfZone, countsAhead, countsFromTheFirstSend, countsFromTheFirstRefusal, countsOutliveRows},
	"expire":          {expires, expiresWithVerification, expiresAtOnce},
	"spending":        {spendTogether, spendPeriods, spendInParallel, carrierHolds},
	"provider events": {providerEvents, providerEventsAtOnce, providerEventsExpire},
	"receipts":        {receipts, pollsBackOffAndEnd, duePollsShared, receiptFirst},
	"watch": {
		conversionIsJudged, conversionBeginsOnce,
		watchPauses, watchLeavesCallersCodesOut, watchCountsReports, watchJudgesByClass, watchNamesApps, watchCounts, watchKnowsWhatIsUsual,
		watchGrowsStricter, watchLifted, watchedAtOnce, storyNamesThePause,
	},
	"observe":    {backlog, outboxCounts, waiting, observed},
	"lease":      {leaseOfOneReplica},
	"partitions": {driftedIDs, windowOverPartitions, pagesOverPartitions, idleReplicaSeesOthers, storageStatus},
	"end":        {callsAfterCancelAndClose},
}

// Run tests a database against the named groups of cases, or against all. open gives each case an
// empty database.
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
