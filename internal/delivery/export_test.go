package delivery

// PolicyWords are policyWords.
var PolicyWords = policyWords
