package sms

import (
	"strings"
	"time"
)

// faults sorts a carrier's codes by the party at fault. Blanks separate the codes in each string. A
// code without a dot also stands for all codes that begin with it and a dot, unless they have an
// entry of their own.
type faults struct {
	// us: our account, sender, template or request. The next carrier is tried, and the operator
	// notified.
	us map[Meaning]string
	// number: another carrier couldn't reach the number either, or must not send to it.
	number map[Meaning]string
	// message: the message is at fault, or the carrier failed.
	message map[Meaning]string
}

func (f faults) table() map[string]Meaning {
	table := map[string]Meaning{}
	for _, column := range []map[Meaning]string{f.us, f.number, f.message} {
		for meaning, codes := range column {
			for code := range strings.FieldsSeq(codes) {
				table[code] = meaning
			}
		}
	}
	return table
}

// The codes come from twilio.com/docs/api/errors,
// help.aliyun.com/zh/sms/developer-reference/api-error-codes, and
// cloud.tencent.com/document/product/382/55981 with the SDK's sms/v20210111/errors.go.
var (
	twilioMeanings = faults{
		us: map[Meaning]string{
			// the login, the account, too many requests, the daily limit
			MeaningTemporary: "20001 20003 20005 20006 20008 20403 20404 20426 20429 30002 30037 63038 90010" +
				" 21212 21267 21401 21601 21603 21607 21616 21660 21661" + // the sender
				" 21609 21701 21704 21705 30127" + // the receipts' address, the messaging service
				" 21611 30001", // the sender's queue is full
			// Only some numbers fail. The reasons are the region, the route, the registration of
			// the sender, a trial account, or a daily cap.
			MeaningPerNumber: "21408 21606 21608 21612 21613 21659 21703 30010 30017 30018 30022 30023 30024 30027 30032 30033 30034" +
				" 30035 30040 30042 30044 572005",
		},
		number: map[Meaning]string{
			MeaningBadNumber:     "21211 21214 21217 21265 21266 21268 21614 21635 30005 30006",
			MeaningOptedOut:      "21610",       // the person wrote STOP
			MeaningRefusedNumber: "30003 30004", // the phone is switched off; the number is blocked
		},
		// no text, too long, filtered, too late, the vendor's fraud guard
		message: map[Meaning]string{MeaningRejected: "21602 21604 21605 21617 21618 21619 30007 30019 30036 30038 30039 30450 30453"},
	}.table()
	aliyunMeanings = faults{
		us: map[Meaning]string{
			MeaningTemporary: "isv.ACCOUNT_ABNORMAL isv.ACCOUNT_NOT_EXISTS isv.AMOUNT_NOT_ENOUGH isv.OUT_OF_SERVICE" +
				" isv.PRODUCT_UNSUBSCRIBE isv.PRODUCT_UN_SUBSCRIPT isv.SECURITY_FROZEN_ACCOUNT isp.RAM_PERMISSION_DENY" +
				" isv.DAY_LIMIT_CONTROL isv.MONTH_LIMIT_CONTROL" + // our limits, for the account or the signature
				" isv.SMS_SIGNATURE_ILLEGAL isv.SMS_SIGNATURE_SCENE_ILLEGAL isv.SMS_SIGN_ILLEGAL isv.SMS_SIGN_EMOJI_ILLEGAL" +
				" isv.SIGN_NAME_ILLEGAL isv.SIGN_STATE_ILLEGAL isv.SIGN_SOURCE_ILLEGAL SIGNATURE_BLACKLIST PORT_NOT_REGISTERED" +
				" isv.SMS_TEMPLATE_ILLEGAL isv.TEMPLATE_MISSING_PARAMETERS isv.TEMPLATE_PARAMS_ILLEGAL template_parameter_count_illegal" +
				" isv.SMS_CONTENT_MISMATCH_TEMPLATE_TYPE isv.SMS_TEST_SIGN_TEMPLATE_LIMIT isv.SMS_TEST_TEMPLATE_PARAMS_ILLEGAL" +
				" isv.INVALID_PARAMETERS isv.INVALID_JSON_PARAM" +
				" isv.EXTEND_CODE_ERROR isv.ONE_CODE_MULTIPLE_SIGN isv.CODE_EXCEED_LIMIT isv.CODE_ERROR" +
				" SignatureDoesNotMatch IncompleteSignature SignatureNonceUsed InvalidTimeStamp InvalidVersion InvalidAction" +
				" InvalidAccessKeyId MissingAccessKeyId Forbidden NoPermission Throttling ServiceUnavailable",
			MeaningPerNumber: "isv.DOMESTIC_NUMBER_NOT_SUPPORTED isv.SMS_TEST_NUMBER_LIMIT isv.NOT_SUPPORTED_COUNTRY isv.COUNTRY_RESTRICTED" +
				" isv.DENY_IP_RANGE NO_ROUTE",
		},
		number: map[Meaning]string{
			MeaningBadNumber: "isv.MOBILE_NUMBER_ILLEGAL INVALID_NUMBER MOBILE_NOT_ON_SERVICE",
			MeaningOptedOut:  "isv.CUSTOMER_REFUSED USER_REJECT",
		},
		message: map[Meaning]string{
			MeaningRejected: "isv.MOBILE_COUNT_OVER_LIMIT isv.BLACK_KEY_CONTROL_LIMIT isv.PARAM_LENGTH_LIMIT isv.PARAM_NOT_SUPPORT_URL" +
				" isv.SMS_CONTENT_ILLEGAL isv.UNSUPPORTED_CONTENT CONTENT_KEYWORD",
			MeaningUnknown: "isp InternalError", // Aliyun failed, and may have sent the message before
		},
	}.table()
	tencentMeanings = faults{
		us: map[Meaning]string{
			MeaningTemporary: "AuthFailure UnauthorizedOperation RequestLimitExceeded IpInBlacklist IpNotInWhitelist ResourceInsufficient" +
				" InvalidParameter MissingParameter UnknownParameter InvalidAction NoSuchVersion ServiceUnavailable" +
				" FailedOperation.InsufficientBalanceInSmsPackage FailedOperation.SignatureIncorrectOrUnapproved FailedOperation.MissingSignature" +
				" FailedOperation.TemplateIncorrectOrUnapproved FailedOperation.TemplateUnapprovedOrNotExist FailedOperation.NotEnterpriseCertification" +
				" FailedOperation.TemplateParamSetNotMatchApprovedTemplate FailedOperation.MarketingSendTimeConstraint" +
				" FailedOperation.FailResolvePacket FailedOperation.JsonParseFail" +
				" InvalidParameterValue.SdkAppIdNotExist InvalidParameterValue.TemplateParameterFormatError" +
				" LimitExceeded.AppDailyLimit LimitExceeded.AppMainlandChinaDailyLimit LimitExceeded.AppGlobalDailyLimit LimitExceeded.DailyLimit" +
				" LimitExceeded.GlobalSmsSendingRateLimit" +
				" InternalError.JsonParseFail InternalError.RequestTimeException InternalError.RestApiInterfaceNotExist" +
				" InternalError.SigFieldMissing InternalError.SigVerificationFail",
			MeaningPerNumber: "UnsupportedOperation LimitExceeded.AppCountryOrRegionDailyLimit LimitExceeded.AppCountryOrRegionInBlacklist",
		},
		number: map[Meaning]string{
			MeaningBadNumber:                 "InvalidParameterValue.IncorrectPhoneNumber",
			MeaningOptedOut:                  "FailedOperation.PhoneNumberInBlacklist",
			MeaningLimited(30 * time.Second): "LimitExceeded.PhoneNumberThirtySecondLimit LimitExceeded.DeliveryFrequencyLimit",
			MeaningLimited(time.Hour):        "LimitExceeded.PhoneNumberOneHourLimit",
			MeaningLimited(24 * time.Hour):   "LimitExceeded.PhoneNumberDailyLimit LimitExceeded.PhoneNumberSameContentDailyLimit",
		},
		message: map[Meaning]string{
			MeaningRejected: "FailedOperation.ContainSensitiveWord InvalidParameter.DirtyWordFound InvalidParameterValue.TemplateWithDirtyWords" +
				" InvalidParameterValue.ContentLengthLimit InvalidParameterValue.TemplateParameterLengthLimit" +
				" InvalidParameterValue.ProhibitedUseUrlInTemplateParameter",
			MeaningUnknown: "InternalError", // Tencent failed, and may have sent the message before
		},
	}.table()
)
