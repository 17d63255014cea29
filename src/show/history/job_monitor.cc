#include "show/history/job_monitor.h"

#include <utility>

namespace leat::observe {
namespace {

constexpr double kLeast_s = 0.01;  // between two samples

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
  if (const double end = end_s(); time_s + shift_s_ <= end) shift_s_ = end + kLeast_s - time_s;
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

std::vector<Sample> JobMonitor::Query(double from_s, double to_s, size_t points) const {
  return With([&](const History& history) { return history.Query(from_s, to_s, points); });
}

std::vector<Event> JobMonitor::EventsAfter(uint64_t number, size_t limit) const {
  return With([&](const History& history) { return history.EventsAfter(number, limit); });
}

double JobMonitor::begin_s() const {
  return With([](const History& history) { return history.begin_s(); });
}

double JobMonitor::end_s() const {
  return With([](const History& history) { return history.end_s(); });
}

}  // namespace leat::observe
