#include "run/roles/autoscale/scale_hook.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace leat::roles {
namespace {

constexpr Duration kFirstHookPause = std::chrono::seconds(1), kLongestHookPause = std::chrono::minutes(1);

std::string Replace(std::string text, const std::string& word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

}  // namespace

ScaleHook::ScaleHook(net::Loop& loop, const job::AutoscaleSpec& spec, std::string job)
    : loop_(loop), spec_(spec), job_(std::move(job)) {}

ScaleHook::~ScaleHook() {
  *here_ = false;
  runner_.Abort();
}

Command ScaleHook::CommandFor(const job::AutoscaleSpec& spec, const std::string& job,
                              const Numbers& numbers) {
  const std::string workers = std::to_string(numbers.workers), servers = std::to_string(numbers.servers);
  Command command{
      .environment = {{"LEAT_JOB", job}, {"LEAT_WORKERS", workers}, {"LEAT_PS", servers}, {"LEAT_TOKEN", ""}},
      .deadline = spec.timeout};
  for (const std::string& argument : spec.command)
    command.arguments.push_back(Replace(Replace(argument, "{workers}", workers), "{ps}", servers));
  return command;
}

void ScaleHook::Want(Time now, const Numbers& numbers) {
  asked_ = now;
  if (running_ || told_ == numbers || now < retry_at_) return;
  running_ = true;
  thread_.Post([this, numbers, command = CommandFor(spec_, job_, numbers), here = here_] {
    loop_.Post([this, numbers, status = runner_.Run(command), here] {
      if (*here) OnEnd(numbers, status);
    });
  });
}

void ScaleHook::OnEnd(const Numbers& numbers, const Status& status) {
  running_ = false;
  failure_ = status.message();
  if (status.ok()) {
    told_ = numbers;
    pause_ = Duration{0};
    return;
  }
  told_.reset();
  pause_ = std::clamp(2 * pause_, kFirstHookPause, kLongestHookPause);
  retry_at_ = asked_ + pause_;
  spdlog::warn("autoscale command for {} workers and {} ps: {}; the next attempt is in {} s", numbers.workers,
               numbers.servers, failure_, std::chrono::duration_cast<std::chrono::seconds>(pause_).count());
}

}  // namespace leat::roles
