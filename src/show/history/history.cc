#include "show/history/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace leat::observe {
namespace {

size_t BytesOf(const Sample& sample) {
  return sizeof(Sample) + sample.members.capacity() * sizeof(MemberSample);
}

size_t BytesOf(const Event& event) {
  return sizeof(Event) + event.text.capacity() + event.member.capacity();
}

bool Finite(const Sample& sample) {
  return std::isfinite(sample.time_s) && std::isfinite(sample.span_s) && sample.span_s > 0;
}

}  // namespace

void History::Limit(Sample* sample) const {
  std::ranges::sort(sample->members, {}, [](const MemberSample& m) { return std::pair(m.role, m.index); });
  std::vector<MemberSample> kept;
  size_t of_role[2] = {0, 0};
  for (const MemberSample& member : sample->members) {
    if (of_role[static_cast<size_t>(member.role)]++ < limits_.members) kept.push_back(member);
  }
  kept.shrink_to_fit();
  sample->members = std::move(kept);
}

const Sample* History::Add(Sample sample) {
  if (!Finite(sample) || (!fine_.empty() && sample.time_s <= fine_.back().time_s)) return nullptr;
  Limit(&sample);
  const auto minute = [this](double time_s) { return std::floor(time_s / limits_.coarse_s); };
  if (minute_ && minute(minute_->time_s) != minute(sample.time_s)) {
    Limit(&*minute_);  // members have come and gone
    coarse_used_ += BytesOf(*minute_);
    coarse_.push_back(std::move(*minute_));
    minute_.reset();
    ThinCoarse();
  }
  // A file may have samples of a second for a minute that it also has as a single sample.
  if (coarse_.empty() || sample.time_s > coarse_.back().time_s)
    minute_ = minute_ ? Merge(*minute_, sample) : sample;
  fine_used_ += BytesOf(sample);
  fine_.push_back(std::move(sample));
  while (fine_.size() > 1 &&
         (fine_.front().time_s <= fine_.back().time_s - limits_.fine_s || fine_used_ > limits_.fine_bytes)) {
    fine_used_ -= BytesOf(fine_.front());
    fine_.pop_front();
  }
  return &fine_.back();
}

void History::AddCoarse(Sample sample) {
  if (!Finite(sample) || !fine_.empty() || (!coarse_.empty() && sample.time_s <= coarse_.back().time_s))
    return;
  Limit(&sample);
  coarse_used_ += BytesOf(sample);
  coarse_.push_back(std::move(sample));
  ThinCoarse();
}

// Merges the older half in pairs.
void History::ThinCoarse() {
  if (coarse_used_ <= limits_.coarse_bytes || coarse_.size() < 4) return;
  std::deque<Sample> thinner;
  const size_t pairs = coarse_.size() / 4;
  for (size_t i = 0; i < pairs; ++i) {
    thinner.push_back(Merge(coarse_[2 * i], coarse_[2 * i + 1]));
    Limit(&thinner.back());
  }
  std::move(coarse_.begin() + static_cast<ptrdiff_t>(2 * pairs), coarse_.end(), std::back_inserter(thinner));
  coarse_ = std::move(thinner);
  coarse_used_ = 0;
  for (const Sample& sample : coarse_) coarse_used_ += BytesOf(sample);
}

void History::Add(Event event) {
  if (event.number <= last_event_) event.number = last_event_ + 1;
  last_event_ = event.number;
  event.text.resize(std::min(event.text.size(), Event::kMaxText));
  event.text.shrink_to_fit();
  const bool dead = event.kind == Event::Kind::kDeadLetter;
  auto& log = dead ? dead_letters_ : events_;
  log.push_back(std::move(event));
  if (log.size() > (dead ? limits_.dead_letters : limits_.events)) log.pop_front();
}

double History::begin_s() const {
  if (!coarse_.empty() && (fine_.empty() || coarse_.front().time_s < fine_.front().time_s))
    return coarse_.front().time_s - static_cast<double>(coarse_.front().span_s);
  return fine_.empty() ? 0 : fine_.front().time_s - static_cast<double>(fine_.front().span_s);
}

double History::end_s() const {
  return std::max(fine_.empty() ? 0 : fine_.back().time_s, coarse_.empty() ? 0 : coarse_.back().time_s);
}

std::vector<Event> History::EventsAfter(uint64_t number, size_t limit) const {
  std::vector<Event> found;
  for (const auto* log : {&events_, &dead_letters_}) {
    const auto first = std::ranges::upper_bound(*log, number, {}, &Event::number);
    const auto count = static_cast<size_t>(log->end() - first);
    found.insert(found.end(), log->end() - static_cast<ptrdiff_t>(std::min(count, limit)), log->end());
  }
  std::ranges::sort(found, {}, &Event::number);
  if (found.size() > limit) found.erase(found.begin(), found.end() - static_cast<ptrdiff_t>(limit));
  return found;
}

size_t History::bytes() const {
  size_t sum = fine_used_ + coarse_used_;
  if (minute_) sum += BytesOf(*minute_);
  for (const auto* log : {&events_, &dead_letters_}) {
    for (const Event& event : *log) sum += BytesOf(event);
  }
  return sum;
}

std::vector<Sample> History::Query(double from_s, double to_s, size_t points) const {
  if (points == 0 || !(to_s > from_s)) return {};
  const double width = (to_s - from_s) / static_cast<double>(points);
  std::vector<Sample> merged;
  double bucket = 0;
  const auto take = [&](const Sample& sample) {
    if (sample.time_s <= from_s || sample.time_s > to_s) return;
    const double its = std::ceil((sample.time_s - from_s) / width);
    if (merged.empty() || its != bucket) {
      merged.push_back(sample);
    } else {
      merged.back() = Merge(merged.back(), sample);
    }
    bucket = its;
  };
  // Samples of a second where there are some.
  const double fine_from = fine_.empty() ? to_s : fine_.front().time_s;
  for (const Sample& sample : coarse_) {
    if (sample.time_s >= fine_from) break;
    take(sample);
  }
  std::ranges::for_each(fine_, take);
  return merged;
}

}  // namespace leat::observe
