#include "show/history/history.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/text.h"

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

// A sum that is smaller than before began anew.
float Rate(double now, double before, double seconds) {
  return seconds > 0 && now >= before ? static_cast<float>((now - before) / seconds) : kUnknownValue;
}

float MeanStaleness(const std::vector<uint64_t>& now, const std::vector<uint64_t>& before) {
  double count = 0, sum = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    const double updates =
        static_cast<double>(now[i]) - static_cast<double>(i < before.size() ? before[i] : 0);
    if (updates < 0) return kUnknownValue;
    count += updates;
    sum += updates * static_cast<double>(i);
  }
  return count > 0 ? static_cast<float>(sum / count) : kUnknownValue;
}

float Mean(float a, float span_a, float b, float span_b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return (a * span_a + b * span_b) / (span_a + span_b);
}

using enum Series;
using M = MemberStatus;

MemberSample Measure(const M& now, const M* before, double seconds) {
  MemberSample sample;
  sample.role = now.name.role == "worker" ? MemberSample::Role::kWorker : MemberSample::Role::kServer;
  sample.index = now.name.index;
  sample.figures.fill(kUnknownValue);
  if (before == nullptr) return sample;
  size_t place = 0;
  for (const auto& figure : RatesOf(sample.role)) {
    const float rate = Rate(figure.value(now), figure.value(*before), seconds);
    // Sums that are reported a moment late may make a share of the time larger than it can be.
    const bool share = figure.unit == "seconds" && figure.series != kCount;
    sample.figures[place++] = share && rate > 1 ? 1 : rate;
  }
  return sample;
}

// The mean of a figure of all members of a role, or their sum.
float Combine(const std::vector<MemberSample>& members, MemberSample::Role role, size_t figure, bool sum) {
  float total = 0;
  int count = 0;
  for (const MemberSample& member : members) {
    if (member.role != role || std::isnan(member.figures[figure])) continue;
    total += member.figures[figure];
    ++count;
  }
  return count == 0 ? kUnknownValue : sum ? total : total / static_cast<float>(count);
}

using Kind = Event::Kind;

std::string HowGone(const std::string& how) {
  if (how == "left") return "left";
  if (how == "evicted") return "was evicted: it was silent, or held up others";
  return "died";
}

// Empty: there was none.
std::string LastDeadLetter(const MemberStatus* member) {
  return member != nullptr && member->worker ? member->worker->progress.last_dead_letter : "";
}

class Comparison {
 public:
  Comparison(const Reading& before, const Reading& now, bool first)
      : before_(before), now_(now), first_(first) {}

  std::vector<Event> Events() {
    CompareCoordinators();
    CompareDepartures();
    CompareMembers();
    ComparePhase();
    CompareWishes();
    CompareMoves();
    CompareCheckpoints();
    CompareWarnings();
    CompareDeadLetters();
    return std::move(events_);
  }

 private:
  void Add(Kind kind, std::string text, const std::string& member = "", uint64_t node = 0) {
    events_.push_back({.kind = kind,
                       .time_s = now_.time_s,
                       .member = member,
                       .node = node,
                       .text = text.substr(0, Event::kMaxText)});
  }

  // Adds an event of a member, whose name begins the text.
  void AddOf(const report::MemberName& member, Kind kind, const std::string& text) {
    Add(kind, member.Text() + " " + text, member.Text(), member.node);
  }

  void CompareCoordinators() {
    if (first_) Add(Kind::kJob, "job " + now_.job + ", strategy " + now_.strategy);
    if (now_.term != before_.term && now_.term > 1)
      Add(Kind::kWarning, "a coordinator of term " + std::to_string(now_.term) + " has taken over");
  }

  // Each coordinator counts from 1 on.
  void CompareDepartures() {
    uint64_t known = 0;
    if (now_.term == before_.term && !before_.departed.empty()) known = before_.departed.back().number;
    for (const report::DepartedStatus& gone : now_.departed) {
      if (gone.number <= known) continue;
      explained_.insert(gone.name.node);
      AddOf(gone.name, gone.how == "left" ? Kind::kLeft : Kind::kDied, HowGone(gone.how));
    }
    for (const MemberStatus& m : before_.members) {
      if (now_.Find(m.name.node) == nullptr && !explained_.contains(m.name.node))
        AddOf(m.name, Kind::kLeft, "is gone");
    }
  }

  void CompareMembers() {
    for (const MemberStatus& m : now_.members) {
      const MemberStatus* before = before_.Find(m.name.node);
      if (before == nullptr) {
        AddOf(m.name, Kind::kJoined, "joined (pid " + std::to_string(m.pid) + " on " + m.host + ")");
        continue;
      }
      const auto skewed = [](const MemberStatus& member) {
        return member.worker && member.worker->skewed.value_or(false);
      };
      if (m.stuck && !before->stuck) AddOf(m.name, Kind::kWarning, "is alive and does nothing");
      if (skewed(m) && !skewed(*before))
        AddOf(m.name, Kind::kWarning, "gets events that are unlike those of the others");
      if (before->name.standby() && m.name.state.empty())
        Add(Kind::kMember, before->name.Text() + " takes part as " + m.name.Text(), m.name.Text(),
            m.name.node);
      if (before->name.state != "draining" && m.name.state == "draining")
        AddOf(m.name, Kind::kMember, "hands over what it has, and leaves");
      for (const std::string& peer : m.unreachable) {
        if (std::ranges::count(before->unreachable, peer) == 0)
          AddOf(m.name, Kind::kWarning, "cannot reach " + peer);
      }
    }
  }

  void ComparePhase() {
    if (now_.phase != before_.phase) Add(Kind::kJob, now_.phase);
    if (!now_.waiting_for.empty() && before_.waiting_for.empty())
      Add(Kind::kWarning, "waits for " + now_.waiting_for);
  }

  void CompareWishes() {
    if (first_ || !now_.wanted || !before_.wanted) return;
    const std::string reason = now_.wanted->reason.value_or("");
    const auto wish = [&](std::optional<uint32_t> now, std::optional<uint32_t> before, const char* what) {
      if (now && before && now != before)
        Add(Kind::kJob, Plural(*now, what) + (now == 1 ? " is wanted" : " are wanted") +
                            (reason.empty() ? "" : ": " + reason));
    };
    wish(now_.wanted->workers, before_.wanted->workers, "worker");
    wish(now_.wanted->ps, before_.wanted->ps, "server");
  }

  void CompareMoves() {
    if (first_) return;
    const auto planned = [](const Reading& r) { return r.moves ? r.moves->planned : 0; };
    if (planned(now_) > 0 && planned(before_) == 0)
      Add(Kind::kJob, Plural(planned(now_), "slice") + " to be moved between servers");
    if (planned(now_) == 0 && planned(before_) > 0) Add(Kind::kJob, "all slices are where they should be");
  }

  void CompareCheckpoints() {
    if (now_.checkpoint && now_.checkpoint != before_.checkpoint && !first_)
      Add(Kind::kCheckpoint, now_.checkpoint->substr(now_.checkpoint->rfind('/') + 1) + " is complete");
    if (now_.failed_checkpoints > Same(before_.failed_checkpoints))
      Add(Kind::kCheckpointFailed, "a checkpoint failed: " + now_.checkpoint_failure);
  }

  void CompareWarnings() {
    if (now_.drift && now_.drift->alarms > Same(before_.drift ? before_.drift->alarms : 0))
      Add(Kind::kDrift, "drift: alarm " + std::to_string(now_.drift->alarms) + " at event " +
                            std::to_string(now_.drift->last ? now_.drift->last->event : 0));
    if (now_.rejected_batches > Same(before_.rejected_batches))
      Add(Kind::kWarning,
          Plural(now_.rejected_batches - Same(before_.rejected_batches), "batch with a gradient") +
              " that is not finite");
    if (now_.conflicts > Same(before_.conflicts))
      Add(Kind::kWarning, "ledgers refused batches that contradict them");
    for (const std::string& warning : now_.warnings) {
      if (std::ranges::count(before_.warnings, warning) == 0) Add(Kind::kWarning, warning);
    }
  }

  void CompareDeadLetters() {
    for (const MemberStatus& m : now_.members) {
      const MemberStatus* before = before_.Find(m.name.node);
      if (!LastDeadLetter(&m).empty() && LastDeadLetter(&m) != LastDeadLetter(before))
        Add(Kind::kDeadLetter, LastDeadLetter(&m), m.name.Text(), m.name.node);
    }
  }

  // A count of the former coordinator says nothing about this one's.
  uint64_t Same(uint64_t count) const { return now_.term == before_.term ? count : 0; }

  const Reading& before_;
  const Reading& now_;
  const bool first_;
  std::set<uint64_t> explained_;  // members that are gone
  std::vector<Event> events_;
};

}  // namespace

report::Figures<M> RatesOf(MemberSample::Role role) {
  return role == MemberSample::Role::kWorker ? report::kWorkerRates : report::kServerRates;
}

std::string Name(const MemberSample& member) {
  return std::string(fields::NameOf(member.role)) + " " + std::to_string(member.index);
}

Status Check(const Sample& sample) {
  return sample.span_s > 0 ? Status() : Status(Code::kInvalidArgument, "a sample of no time");
}

Sample Merge(const Sample& earlier, const Sample& later) {
  Sample merged;
  merged.time_s = later.time_s;
  merged.span_s = earlier.span_s + later.span_s;
  for (size_t i = 0; i < kSeries; ++i)
    merged.figures[i] = Mean(earlier.figures[i], earlier.span_s, later.figures[i], later.span_s);
  merged.members = earlier.members;
  for (const MemberSample& member : later.members) {
    const auto known =
        std::ranges::find_if(merged.members, [&](const auto& m) { return m.SameMember(member); });
    if (known == merged.members.end()) {
      merged.members.push_back(member);
      continue;
    }
    for (size_t i = 0; i < MemberSample::kFigures; ++i)
      known->figures[i] = Mean(known->figures[i], earlier.span_s, member.figures[i], later.span_s);
  }
  return merged;
}

Sample Sampler::OnReading(Reading reading) {
  recent_.push_back(std::move(reading));
  const Reading& now = recent_.back();
  // The front is the latest reading that is at least a window old.
  while (recent_.size() > 2 && recent_[1].time_s <= now.time_s - kWindow_s) recent_.pop_front();
  const Reading& before = recent_.front();
  const double seconds = now.time_s - before.time_s;

  Sample sample;
  sample.time_s = now.time_s;
  for (const auto& figure : report::kJobFigures) {
    if (figure.series == kCount) continue;
    const double value = figure.value(now);
    sample[figure.series] =
        figure.rate ? Rate(value, figure.value(before), seconds) : static_cast<float>(value);
  }
  sample[kStaleness] = MeanStaleness(now.staleness, before.staleness);
  for (const M& member : now.members) {
    if (!member.name.Works("worker") && !member.name.Works("ps")) continue;
    // A member that came meanwhile has its rates since then.
    const M* first = nullptr;
    double since = 0;
    for (const Reading& earlier : recent_) {
      first = earlier.Find(member.name.node);
      since = now.time_s - earlier.time_s;
      if (first != nullptr) break;
    }
    sample.members.push_back(Measure(member, since > 0 ? first : nullptr, since));
  }
  for (const auto role : {MemberSample::Role::kWorker, MemberSample::Role::kServer}) {
    size_t place = 0;
    for (const auto& figure : RatesOf(role)) {
      if (figure.series != kCount)
        sample[figure.series] = Combine(sample.members, role, place, role == MemberSample::Role::kServer);
      ++place;
    }
  }
  return sample;
}

std::vector<Event> EventsBetween(const Reading* before, const Reading& now) {
  Reading nothing;
  nothing.term = now.term;
  return Comparison(before != nullptr ? *before : nothing, now, before == nullptr).Events();
}

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
    const double own_bucket = std::ceil((sample.time_s - from_s) / width);
    if (merged.empty() || own_bucket != bucket) {
      merged.push_back(sample);
    } else {
      merged.back() = Merge(merged.back(), sample);
    }
    bucket = own_bucket;
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
