#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "run/roles/follow/follower_role.h"

namespace leat::roles {
namespace {

// Takes one round.
class OneRound final : public ValueSink {
 public:
  explicit OneRound(std::stop_source& stop) : stop_(stop) {}

  Status OnJob(const job::Job& job) override {
    job_ = job;
    parameters_ = std::make_unique<protocol::Parameters>(job.Slices(), protocol::WithoutGradients());
    return {};
  }
  protocol::Parameters* Begin() override { return complete_ ? nullptr : parameters_.get(); }
  void Complete(protocol::Parameters*, Time, bool) override {
    complete_ = true;
    stop_.request_stop();
  }
  void OnConnected(bool connected, const std::string& why) override { why_ = connected ? "" : why; }

  Result<FetchedValues> Take() {
    if (!complete_) {
      return Status(Code::kDeadlineExceeded,
                    "the job's values did not come in time" + (why_.empty() ? "" : ": " + why_));
    }
    FetchedValues fetched{std::move(*job_), {}};
    for (size_t v = 0; v < parameters_->table().variables.size(); ++v) {
      const auto values = parameters_->values(v);
      fetched.variables.emplace_back(values.begin(), values.end());
    }
    return fetched;
  }

 private:
  std::stop_source& stop_;
  std::optional<job::Job> job_;
  std::unique_ptr<protocol::Parameters> parameters_;
  bool complete_ = false;
  std::string why_;
};

}  // namespace

Result<FetchedValues> FetchValues(const RoleOptions& options, Duration deadline) {
  std::stop_source stop;
  OneRound sink(stop);
  Status outcome;
  {
    const std::jthread limit([&stop, deadline](const std::stop_token& over) {
      std::mutex mutex;
      std::condition_variable_any wake;
      std::unique_lock lock(mutex);
      wake.wait_for(lock, over, deadline, [] { return false; });
      stop.request_stop();
    });
    outcome = Follow({.role = options}, sink, stop.get_token());
  }
  if (!outcome.ok()) return outcome;
  return sink.Take();
}

}  // namespace leat::roles
