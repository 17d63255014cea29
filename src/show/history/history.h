// A job's past: samples of its figures, and a log of its events.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "show/report/figures.h"

namespace leat::observe {

using report::kUnknown;
using report::MemberStatus;
using report::Series;

// Some thousand years after 1970: displays have room for such times, and compute with them.
inline constexpr uint64_t kLatest_s = 100'000'000'000;

// The status of a job at one moment, for samples and the log of events.
struct Reading : report::JobStatus {
  Reading() = default;
  Reading(double time, JobStatus status) : JobStatus(std::move(status)), time_s(time) {
    std::ranges::stable_sort(members, {}, NodeOf);
  }
  const MemberStatus* Find(uint64_t node) const {
    const auto at = std::ranges::lower_bound(members, node, {}, NodeOf);
    return at != members.end() && NodeOf(*at) == node ? &*at : nullptr;
  }

  double time_s = 0;  // since 1970

 private:
  static uint64_t NodeOf(const MemberStatus& m) { return m.name.node; }
};

inline constexpr size_t kSeries = static_cast<size_t>(Series::kCount);

// Figures of one worker or server; `kUnknownValue` if there is none.
inline constexpr float kUnknownValue = std::numeric_limits<float>::quiet_NaN();
struct MemberSample {
  static constexpr size_t kFigures = 6;
  enum class Role : uint8_t { kWorker, kServer } role = Role::kWorker;
  uint32_t index = 0;
  std::array<float, kFigures> figures;

  bool SameMember(const MemberSample& other) const { return role == other.role && index == other.index; }
};
LEAT_ENUM(MemberSample::Role, (kWorker, "worker"), (kServer, "ps"));
LEAT_FIELDS(MemberSample, (role), (index), (figures));
// Descriptions of the values in MemberSample::figures, in their order.
report::Figures<MemberStatus> RatesOf(MemberSample::Role role);
std::string Name(const MemberSample& member);  // "worker 3"

struct Sample {
  double time_s = 0;  // its end, since 1970
  float span_s = 1;   // its length
  std::array<float, kSeries> figures;
  std::vector<MemberSample> members;

  Sample() { figures.fill(kUnknownValue); }
  float& operator[](Series series) { return figures[static_cast<size_t>(series)]; }
  float operator[](Series series) const { return figures[static_cast<size_t>(series)]; }
};
LEAT_FIELDS(Sample, (time_s, NotNegative, AtMost(kLatest_s)), (span_s, NotNegative, AtMost(kLatest_s)),
            (figures, Counted), (members, AtMost(4096)));
Status Check(const Sample& sample);

// The sample of both spans. Figures are means, weighted by the spans in which they are known.
Sample Merge(const Sample& earlier, const Sample& later);

// Makes samples of the status of a job, whose sums it turns into rates. Not thread-safe.
class Sampler {
 public:
  // Rates are those of the last moments of this length: what members report comes in bursts.
  static constexpr double kWindow_s = 3;

  // To be called with readings whose times grow.
  Sample OnReading(Reading reading);

 private:
  std::deque<Reading> recent_;
};

struct Event {
  enum class Kind : uint8_t {
    kJob,  // its phase, its wishes
    kJoined,
    kLeft,
    kDied,    // a process that ended, or a member that was evicted
    kMember,  // an action of a member
    kCheckpoint,
    kCheckpointFailed,
    kDrift,
    kWarning,
    kDeadLetter,  // `text`: its place and the reason
  } kind = Kind::kJob;
  uint64_t number = 0;  // position in the log, given by History
  double time_s = 0;    // since 1970
  std::string member;   // "worker 3"; empty: none
  uint64_t node = 0;
  std::string text;  // with bytes of records and peers, at most kMaxText
  static constexpr size_t kMaxText = 512;
};
LEAT_ENUM(Event::Kind, (kJob, "job"), (kJoined, "joined"), (kLeft, "left"), (kDied, "died"),
          (kMember, "member"), (kCheckpoint, "checkpoint"), (kCheckpointFailed, "checkpoint_failed"),
          (kDrift, "drift"), (kWarning, "warning"), (kDeadLetter, "dead_letter"));
// A larger number could leave none for the next event.
LEAT_FIELDS(Event, (kind), (number, AtMost(uint64_t{1} << 53)),
            (time_s, NotNegative, AtMost(kLatest_s), As("time")), (member, AtMost(512)), (node),
            (text, AtMost(Event::kMaxText)));

// The events between two readings, in a useful order. `before`: null for the first reading that there is. A
// pure function.
std::vector<Event> EventsBetween(const Reading* before, const Reading& now);

// The past in memory: samples of a second for an hour, samples of a minute beyond, and a log of events. The
// memory is bounded, however long the job runs and however many members it has. Pure: times are arguments.
// Not thread-safe.
class History {
 public:
  struct Limits {
    double fine_s = 3600;           // span of the samples of a second
    size_t fine_bytes = 7 << 20;    // fewer than fine_s if they take more
    double coarse_s = 60;           // length of the samples beyond
    size_t coarse_bytes = 3 << 20;  // if they take more, the older ones become longer
    size_t members = 24;            // members of each role in a sample: those with the lowest indices
    size_t events = 1000;           // without dead letters
    size_t dead_letters = 200;
  };
  History() : History(Limits()) {}
  explicit History(Limits limits) : limits_(limits) {}

  // A sample of a second. Returns it as it is kept, until the next call; null: its time is not later than
  // that of the last one, and it is ignored.
  const Sample* Add(Sample sample);
  // Events get their numbers here, unless they have one already that is higher than all others.
  void Add(Event event);
  // A sample of a minute or more, from a file. Before all others, and in their order; otherwise it is
  // ignored.
  void AddCoarse(Sample sample);

  bool empty() const { return fine_.empty() && coarse_.empty(); }
  double begin_s() const;  // the beginning of the first sample; 0: there is none
  double end_s() const;
  const std::deque<Sample>& fine() const { return fine_; }
  const std::deque<Sample>& coarse() const { return coarse_; }
  const std::deque<Event>& events() const { return events_; }
  const std::deque<Event>& dead_letters() const { return dead_letters_; }
  uint64_t last_event() const { return last_event_; }  // its number
  // Events and dead letters after this number, the last `limit` of them, in their order.
  std::vector<Event> EventsAfter(uint64_t number, size_t limit) const;
  size_t bytes() const;  // in memory, about

  // The samples that end in (from, to], merged to at most `points`.
  std::vector<Sample> Query(double from_s, double to_s, size_t points) const;

 private:
  void Limit(Sample* sample) const;
  void ThinCoarse();

  Limits limits_;
  std::deque<Sample> fine_;
  std::deque<Sample> coarse_;
  size_t fine_used_ = 0, coarse_used_ = 0;
  // The next sample of a minute, merged from the samples of a second so far.
  std::optional<Sample> minute_;
  std::deque<Event> events_, dead_letters_;
  uint64_t last_event_ = 0;
};

}  // namespace leat::observe
