#include "show/history/events.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace leat::observe {
namespace {

using Kind = Event::Kind;

// Without the directory.
std::string CheckpointName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

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
    if (first_) return;
    if (!now_.wanted || !before_.wanted) return CompareMoves();
    const std::string reason = now_.wanted->reason.value_or("");
    const auto wish = [&](std::optional<uint32_t> now, std::optional<uint32_t> before, const char* what) {
      if (now && before && now != before)
        Add(Kind::kJob, Plural(*now, what) + (now == 1 ? " is wanted" : " are wanted") +
                            (reason.empty() ? "" : ": " + reason));
    };
    wish(now_.wanted->workers, before_.wanted->workers, "worker");
    wish(now_.wanted->ps, before_.wanted->ps, "server");
    CompareMoves();
  }

  void CompareMoves() {
    const auto planned = [](const Reading& r) { return r.moves ? r.moves->planned : 0; };
    if (planned(now_) > 0 && planned(before_) == 0)
      Add(Kind::kJob, Plural(planned(now_), "slice") + " to be moved between servers");
    if (planned(now_) == 0 && planned(before_) > 0) Add(Kind::kJob, "all slices are where they should be");
  }

  void CompareCheckpoints() {
    if (now_.checkpoint && now_.checkpoint != before_.checkpoint && !first_)
      Add(Kind::kCheckpoint, CheckpointName(*now_.checkpoint) + " is complete");
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

std::vector<Event> EventsBetween(const Reading* before, const Reading& now) {
  Reading nothing;
  nothing.term = now.term;
  return Comparison(before != nullptr ? *before : nothing, now, before == nullptr).Events();
}

}  // namespace leat::observe
