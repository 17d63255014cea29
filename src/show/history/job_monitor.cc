#include "show/history/job_monitor.h"

#include <cmath>
#include <utility>

#include "base/log.h"

namespace leat::observe {
namespace {

constexpr double kLeast_s = 0.01;  // between two samples

// The status is stored this often, for those who look after a crash.
constexpr double kMinute_s = 60;

}  // namespace

void JobMonitor::Load(History history, StoredStatus last) {
  auto present = std::make_shared<Present>();
  auto status = report::StatusFromJson(last.json);
  if (!history.fine().empty()) present->sample = history.fine().back();
  std::lock_guard lock(mutex_);
  present->live = present_->live;
  if (status.ok()) {
    present->number = present_->number + 1;
    present->trimmed = report::Trimmed(*status);
    present->reading = Reading(last.time_s, std::move(*status));
  }
  history_ = std::move(history);
  present_ = std::move(present);
}

std::vector<Record> JobMonitor::OnStatus(double time_s, report::JobStatus status) {
  // A clock that is behind makes no samples in the past, and none that are too short: that would make rates
  // of a second those of a moment.
  if (const double end = With(&History::end_s); time_s + shift_s_ <= end) shift_s_ = end + kLeast_s - time_s;
  time_s += shift_s_;
  auto next = std::make_shared<Present>();
  next->trimmed = report::Trimmed(status);
  next->reading = Reading(time_s, std::move(status));
  next->sample = sampler_.OnReading(next->reading);
  std::vector<Record> records;
  std::lock_guard lock(mutex_);
  if (const Sample* kept = history_.Add(next->sample)) records.emplace_back(*kept);
  const bool first = present_->number == 0;
  for (Event& event : EventsBetween(first ? nullptr : &present_->reading, next->reading)) {
    event.number = history_.last_event() + 1;
    records.emplace_back(event);
    history_.Add(std::move(event));
  }
  next->number = present_->number + 1;
  present_ = std::move(next);
  return records;
}

void JobMonitor::SetLive(bool live) {
  std::lock_guard lock(mutex_);
  if (present_->live == live) return;
  auto next = std::make_shared<Present>(*present_);
  next->live = live;
  if (next->number > 0) ++next->number;
  present_ = std::move(next);
}

void JobMonitor::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

std::shared_ptr<const JobMonitor::Present> JobMonitor::present() const {
  std::lock_guard lock(mutex_);
  return present_;
}

bool JobMonitor::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

Recorder::Recorder(std::string directory, std::shared_ptr<JobMonitor> monitor)
    : directory_(std::move(directory)), monitor_(std::move(monitor)) {
  HistoryReader former(directory_);
  if (const auto read = former.Update(); !read.ok() && read.status().code() != Code::kNotFound)
    spdlog::warn("{}; what the job's history has before that is kept", read.status().message());
  const StoredStatus status = former.status();
  monitor_->Load(former.TakeHistory(), status);
  StartFile(status);
}

void Recorder::OnStatus(double time_s, report::JobStatus status) {
  const std::vector<Record> records = monitor_->OnStatus(time_s, std::move(status));
  if (records.empty()) return;
  Store(records);
  if (minute_s_ && std::abs(time_s - *minute_s_) < kMinute_s) return;
  minute_s_ = time_s;
  if (!writer_ && !replaced_) return StartFile(LastStatus());
  Store({LastStatus()});
}

void Recorder::Finish(double time_s, report::JobStatus status) {
  Store(monitor_->OnStatus(time_s, std::move(status)));
  Store({LastStatus()});
  monitor_->Close();
}

// Viewers wait for the monitor's lock meanwhile, a few times a day.
void Recorder::StartFile(const StoredStatus& status) {
  auto writer = monitor_->With(
      [&](const History& history) { return HistoryWriter::Create(directory_, history, status); });
  if (!writer.ok()) return OnFailure(writer.status());
  writer_.emplace(std::move(*writer));
  if (std::exchange(failing_, false)) spdlog::info("the job's history is stored again");
}

void Recorder::Store(const std::vector<Record>& records) {
  if (!writer_) return;
  ByteWriter out;
  for (const Record& record : records) Append(record, &out);
  if (const Status stored = writer_->Append(out.view()); !stored.ok()) return OnFailure(stored);
  const auto outdated = writer_->Outdated();
  if (!outdated.ok()) return OnFailure(outdated.status());
  if (!*outdated) return;
  StartFile(LastStatus());
}

StoredStatus Recorder::LastStatus() const {
  const auto present = monitor_->present();
  return {present->reading.time_s, report::ToJson(present->trimmed)};
}

void Recorder::OnFailure(const Status& why) {
  writer_.reset();
  replaced_ = why.code() == Code::kStale;
  if (!std::exchange(failing_, true)) spdlog::warn("the job's history is not stored: {}", why.message());
}

}  // namespace leat::observe
