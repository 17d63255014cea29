// The secret of those who may look at a job. It follows from the job's token, and the token cannot be found
// out from it, so it can be given to a Prometheus server or a colleague who may change nothing.
#pragma once

#include <string>
#include <string_view>

namespace leat::observe {

// 64 hexadecimal digits: HMAC-SHA-256 of a label, with the token as its key.
std::string ViewToken(std::string_view token);

// Whether two secrets are the same. The time depends on their lengths alone.
bool SameSecret(std::string_view a, std::string_view b);

}  // namespace leat::observe
