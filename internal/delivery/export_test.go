package delivery

// PolicyWords are policyRefusalWords.
var PolicyWords = policyRefusalWords
