// Bodies of requests to a pool and of its replies: each is refused, or is read again from what it is written
// as. A report is given to a pool, which goes on deciding.
#include <string>
#include <string_view>

#include "base/check.h"
#include "pool/messages_json.h"

namespace {

template <class Read>
void Check(std::string_view text, Read read) {
  const auto value = read(text);
  if (!value.ok()) return;
  const auto again = read(ToJson(*value));
  LEAT_CHECK(again.ok());
  LEAT_CHECK(ToJson(*again) == ToJson(*value));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat::pool;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(text, ReportFromJson);
  Check(text, ReplyFromJson);
  Check(text, SubmitFromJson);
  Check(text, CancelFromJson);
  Check(text, AccessFromJson);
  Check(text, StoredFromJson);
  (void)JobFromJson(text);
  if (const auto report = ReportFromJson(text); report.ok()) {
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
