#include "show/history/recorder.h"

#include <cmath>
#include <utility>

#include "base/log.h"

namespace leat::observe {
namespace {

// The status is stored this often, for those who look after a crash.
constexpr double kMinute_s = 60;

}  // namespace

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
  StoreStatus();
}

void Recorder::Finish(double time_s, report::JobStatus status) {
  Store(monitor_->OnStatus(time_s, std::move(status)));
  StoreStatus();
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

void Recorder::StoreStatus() {
  Store({LastStatus()});
}

void Recorder::OnFailure(const Status& why) {
  writer_.reset();
  replaced_ = why.code() == Code::kStale;
  if (!std::exchange(failing_, true)) spdlog::warn("the job's history is not stored: {}", why.message());
}

}  // namespace leat::observe
