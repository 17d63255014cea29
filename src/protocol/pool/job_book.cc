#include "protocol/pool/job_book.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/exit_status.h"

namespace leat::pool {
namespace {

constexpr uint32_t kMostFailures = 5;  // failures of a job's processes in a row, without progress
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
constexpr Duration kMostPause = std::chrono::seconds(10);
constexpr size_t kForgottenAtOnce = 20;  // by a decision

}  // namespace

bool IsOver(JobState state) {
  return state >= JobState::kDone;
}

std::string NameOf(const ProcessId& id) {
  return id.role == ProcessRole::kCoordinator
             ? "the coordinator"
             : std::string(fields::NameOf(id.role)) + " " + std::to_string(id.index);
}

Duration PauseAfter(uint32_t times, Duration first, Duration most) {
  return std::min<Duration>(first * (1 << std::min(times, 10u)), most);
}

Status Check(const JobSpec& spec) {
  constexpr uint32_t kMost = 100'000;  // processes
  constexpr uint64_t kMostCores = 1'000'000, kMostMemory = uint64_t{1} << 44;
  const auto bad = [](const std::string& what) { return Status(Code::kInvalidArgument, what); };
  if (!(spec.share > 0 && spec.share <= 1e6))
    return bad("the share is " + std::to_string(spec.share) + ", it must be above 0 and at most 1000000");
  if (spec.priority < -1000 || spec.priority > 1000)
    return bad("the priority is " + std::to_string(spec.priority) + ", it may be -1000 to 1000");
  if (spec.least_workers < 1 || spec.least_workers > kMost || spec.workers > kMost || spec.servers > kMost)
    return bad("a job has 1 to 100000 workers and up to 100000 servers");
  if (spec.least_workers > spec.workers) {
    return bad("the job wants " + std::to_string(spec.workers) + " workers, fewer than its minimum of " +
               std::to_string(spec.least_workers));
  }
  for (const ProcessRole role : {ProcessRole::kCoordinator, ProcessRole::kServer, ProcessRole::kWorker}) {
    const Resources& each = spec.resources.of(role);
    if (each.millicores > kMostCores || each.memory > kMostMemory)
      return bad("a " + std::string(fields::NameOf(role)) + " cannot have " + ResourcesText(each));
  }
  if (spec.resources.worker == Resources()) return bad("a worker needs cores, memory, or both");
  for (const ProcessRole role : {ProcessRole::kCoordinator, ProcessRole::kServer, ProcessRole::kWorker}) {
    if (spec.classes.of(role).size() > 64) return bad("a class of hosts has at most 64 characters");
  }
  return {};
}

const JobProcess* PoolJob::coordinator() const {
  for (const auto& [number, process] : std::views::reverse(processes)) {
    if (process.id.role == ProcessRole::kCoordinator) return &process;
  }
  return nullptr;
}

uint32_t PoolJob::Count(ProcessRole role) const {
  return static_cast<uint32_t>(
      std::ranges::count_if(processes, [role](const auto& p) { return p.second.id.role == role; }));
}

JobBook::JobBook(Time now, const PoolConfig& config, std::vector<JobRecord> records)
    : config_(config), start_(now) {
  for (JobRecord& record : records) {
    const bool over = IsOver(record.state);
    settled_ &= over || record.state == JobState::kQueued;
    last_job_ = std::max(last_job_, record.id);
    if (over && record.over_s == 0) record.over_s = config.start_s;
    if (over) over_in_order_.insert({record.over_s, record.id});
    PoolJob& job = (over ? over_ : jobs_)[record.id];
    job.want = {.job = record.id, .servers = record.spec.servers, .workers = record.spec.workers};
    job.record = std::move(record);
  }
}

PoolJob* JobBook::FindLive(JobId id) {
  const auto at = jobs_.find(id);
  return at == jobs_.end() ? nullptr : &at->second;
}

const PoolJob* JobBook::Find(JobId id) const {
  for (const auto* part : {&jobs_, &over_}) {
    if (const auto at = part->find(id); at != part->end()) return &at->second;
  }
  return nullptr;
}

JobId JobBook::Add(const JobSpec& spec) {
  const JobId id = ++last_job_;
  PoolJob& job = jobs_[id];
  job.record.id = id;
  job.record.spec = spec;
  job.want = {.job = id, .servers = spec.servers, .workers = spec.workers};
  Change(job);
  return id;
}

void JobBook::Reopen(JobId id) {
  auto over = over_.extract(id);
  if (!over) return;
  over_in_order_.erase({over.mapped().record.over_s, id});
  jobs_.insert(std::move(over));
}

void JobBook::Stop(Time now, PoolJob* job, bool discard, const std::string& reason) {
  JobRecord& record = job->record;
  if (record.state == JobState::kStopping && (record.discard || !discard)) return;
  if (record.state != JobState::kStopping) record.reason = reason;
  record.state = JobState::kStopping;
  record.discard = discard;
  if (!job->stopping_since) job->stopping_since = now;
  Change(*job);
  if (job->coordinator() == nullptr && settled_)
    End(now, job, record.reason.empty() ? JobState::kCancelled : JobState::kFailed, record.reason);
}

int64_t JobBook::SecondsAt(Time now) const {
  return config_.start_s + std::chrono::duration_cast<std::chrono::seconds>(now - start_).count();
}

void JobBook::Preempt(Time now, PoolJob* job) {
  job->record.state = JobState::kPreempting;
  job->stopping_since = now;
  Change(*job);
}

void JobBook::Queue(PoolJob* job) {
  job->record.state = JobState::kQueued;
  job->record.address.clear();
  Change(*job);
  EndProcesses(*job);
}

void JobBook::End(Time now, PoolJob* job, JobState state, const std::string& reason) {
  job->record.state = state;
  job->record.over_s = SecondsAt(now);
  job->record.reason = reason;
  job->record.address.clear();
  job->stopping_since.reset();
  job->waiting.clear();
  Change(*job);
  EndProcesses(*job);
}

void JobBook::EndProcesses(const PoolJob& job) {
  for (const auto& [number, process] : job.processes) ending_.insert(number);
}

void JobBook::OnCoordinatorEnded(Time now, PoolJob* job, int32_t exit_code, const std::string& error,
                                 bool has_begun) {
  JobRecord& record = job->record;
  const AfterExit after = AfterExitOf(exit_code, true);
  job->coordinator_waits.clear();
  job->accepts_calls = false;
  switch (record.state) {
    case JobState::kRunning:
    case JobState::kPreempting:
      if (after == AfterExit::kGiveUp) {
        return End(now, job, JobState::kFailed,
                   error.empty() ? "the coordinator ended with status " + std::to_string(exit_code) : error);
      }
      if (record.state == JobState::kPreempting) {
        // Until its coordinator has an address, the job is where it was before.
        record.saved = exit_code == 0 ? !record.spec.bucket.empty() : record.saved;
        ++record.preemptions;
        job->stopping_since.reset();
        job->failures = job->retries = 0;
      } else if (after == AfterExit::kDone) {
        return End(now, job, JobState::kDone, "");
      } else {
        OnFailed(now, job, "the coordinator", exit_code, error);
        if (has_begun || record.state != JobState::kRunning) return;
      }
      if (!has_begun && !record.saved) record.home.clear();
      return Queue(job);
    case JobState::kStopping:
      return End(now, job, record.reason.empty() ? JobState::kCancelled : JobState::kFailed, record.reason);
    default:
      return;
  }
}

void JobBook::OnFailed(Time now, PoolJob* job, const std::string& name, int32_t exit_code,
                       const std::string& error) {
  const std::string how = exit_code > ExitStatus::kSignal
                              ? "signal " + std::to_string(exit_code - ExitStatus::kSignal)
                              : "status " + std::to_string(exit_code);
  job->trouble = name + " (" + how + (error.empty() ? ")" : "): " + error);
  const AfterExit after = AfterExitOf(exit_code, false);
  if (after == AfterExit::kGiveUp) return Stop(now, job, false, name + ": " + (error.empty() ? how : error));
  uint32_t& times = after == AfterExit::kRestartForEver ? job->retries : job->failures;
  job->retry_at = now + PauseAfter(times++, kFirstPause, kMostPause);
  if (job->failures > kMostFailures) {
    Stop(now, job, false,
         std::to_string(job->failures) + " processes ended without progress, the last one " + job->trouble);
  }
}

void JobBook::Retire(Time now) {
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const auto job = at++;
    if (!IsOver(job->second.record.state) || !job->second.processes.empty()) continue;
    over_in_order_.insert({job->second.record.over_s, job->first});
    over_.insert(jobs_.extract(job));
  }
  const int64_t since = SecondsAt(now - config_.keep_over);
  auto oldest = over_in_order_.begin();
  for (size_t i = 0; i < kForgottenAtOnce && oldest != over_in_order_.end(); ++i) {
    if (oldest->first >= since && over_.size() <= config_.most_over) return;
    if (oldest->second == last_job_) {
      ++oldest;
      continue;
    }
    forgotten_.push_back(std::move(over_.extract(oldest->second).mapped().record));
    oldest = over_in_order_.erase(oldest);
  }
}

std::vector<JobRecord> JobBook::TakeChanged() {
  std::ranges::sort(changed_);
  const auto rest = std::ranges::unique(changed_);
  changed_.erase(rest.begin(), rest.end());
  std::vector<JobRecord> records;
  for (const JobId id : changed_) {
    if (const PoolJob* const job = Find(id)) records.push_back(job->record);
  }
  changed_.clear();
  return records;
}

}  // namespace leat::pool
