#include "storage/object_store/retry.h"

#include <algorithm>
#include <array>

namespace leat::object_store {
namespace {

template <size_t n>
bool IsOneOf(const std::string& code, const std::array<const char*, n>& codes) {
  return std::ranges::find(codes, code) != codes.end();
}

// Errors that pass, whatever their HTTP status. A body that was damaged on the way is among them.
constexpr std::array kPassing = {"InternalError",
                                 "SlowDown",
                                 "ServiceUnavailable",
                                 "RequestTimeout",
                                 "BadDigest",
                                 "IncompleteBody",
                                 "ConditionalRequestConflict",
                                 "OperationAborted",
                                 "Throttling",
                                 "XAmzContentChecksumMismatch"};
constexpr std::array kExpired = {"ExpiredToken", "ExpiredTokenException", "RequestExpired",
                                 "TokenRefreshRequired"};
constexpr std::array kUnknownKeys = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken",
                                     "InvalidClientTokenId"};

Code CodeOf(int http, const std::string& code) {
  if (code == "NoSuchBucket") return Code::kFailedPrecondition;
  if (http == 401 || http == 403 || IsOneOf(code, kExpired)) return Code::kPermissionDenied;
  if (http == 404) return Code::kNotFound;
  if (http == 412) return Code::kFailedPrecondition;
  if (http == 507) return Code::kResourceExhausted;
  return http >= 500 ? Code::kUnavailable : Code::kInvalidArgument;
}

}  // namespace

Outcome Judge(const Status& sent, int http, const std::string& code, const std::string& message) {
  if (!sent.ok()) {
    const bool again = sent.code() == Code::kUnavailable || sent.code() == Code::kDeadlineExceeded;
    return {sent, again, false};
  }
  if (http / 100 == 2 && code.empty()) return {};
  std::string text = code.empty() ? "" : code + ": ";
  text += message.empty() ? "" : message + " ";
  text += "(HTTP " + std::to_string(http) + ")";
  Outcome outcome{{CodeOf(http, code), std::move(text)}};
  outcome.new_credentials = IsOneOf(code, kExpired);
  // A reply to HEAD has no body that says more.
  outcome.refused = IsOneOf(code, kUnknownKeys) || (code.empty() && (http == 401 || http == 403));
  outcome.again = http == 408 || http == 429 || http == 500 || http == 502 || http == 503 || http == 504 ||
                  IsOneOf(code, kPassing);
  if (outcome.again) outcome.status = Status(Code::kUnavailable, outcome.status.message());
  return outcome;
}

Duration Retries::Pause(Time now, uint32_t attempt, uint64_t random) const {
  constexpr uint32_t kMostDoublings = 20;
  const Duration whole =
      std::min(policy_.first * (int64_t{1} << std::min(attempt - 1, kMostDoublings)), policy_.most);
  const Duration half = whole / 2;
  const Duration pause =
      half +
      Duration(static_cast<int64_t>(random % static_cast<uint64_t>(std::max<int64_t>(1, half.count()))));
  return pause < Left(now) ? pause : Duration(-1);
}

}  // namespace leat::object_store
