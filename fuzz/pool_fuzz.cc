// Bodies of requests to a pool and of its replies: each is refused, or is the same after it is
// written and read again. A report is given to a pool, which goes on deciding.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/check.h"
#include "run/pool/messages_json.h"

namespace {

template <class Message>
void Check(std::string_view text) {
  using leat::pool::FromJson;
  const auto value = FromJson<Message>(text);
  if (!value.ok()) return;
  const auto again = FromJson<Message>(ToJson(*value));
  LEAT_CHECK(again.ok());
  LEAT_CHECK(ToJson(*again) == ToJson(*value));
}

void CheckAll(std::string_view text) {
  using namespace leat::pool;
  Check<AgentReport>(text);
  Check<AgentReply>(text);
  Check<SubmitRequest>(text);
  Check<CancelRequest>(text);
  Check<ListRequest>(text);
  Check<UserAccess>(text);
  Check<StoredJob>(text);
  Check<JobNumber>(text);
}

// The lists of a text nested so deep as in a body of 400 kB, which no fuzzer would make.
std::string Deeper(std::string_view text) {
  constexpr size_t kBrackets = 400'000;
  const auto is_bracket = [](char c) { return c == '[' || c == ']'; };
  const auto brackets = static_cast<size_t>(std::ranges::count_if(text, is_bracket));
  std::string deeper;
  for (const char c : text) deeper.append(is_bracket(c) ? kBrackets / brackets : 1, c);
  return deeper;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat::pool;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckAll(text);
  CheckAll(Deeper(text));
  if (const auto report = FromJson<AgentReport>(text); report.ok()) {
    Pool pool({}, {}, {});
    JobSpec spec{.name = "job", .servers = 1};
    spec.resources.worker = {1000, 1 << 20};
    pool.Submit({}, spec);
    for (int second = 1; second < 4; ++second) {
      AgentReport next = *report;
      next.sequence = static_cast<uint64_t>(second);
      (void)pool.OnReport(leat::Time(second * 1'000'000'000LL), next);
      pool.Decide(leat::Time(second * 1'000'000'000LL));
      (void)StatusJson(pool.jobs({}), pool.agents({}));
    }
  }
  return 0;
}
