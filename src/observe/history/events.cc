#include "observe/history/events.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace leat::observe {
namespace {

using Kind = Event::Kind;

std::string Count(double count, const char* what) {
  return std::to_string(std::llround(count)) + " " + what + (count == 1 ? "" : "s");
}

// Without the directory.
std::string CheckpointName(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string HowGone(const std::string& how) {
  if (how == "left") return "left";
  if (how == "evicted") return "was evicted: it was silent, or held up others";
  return "died";
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

  void CompareCoordinators() {
    if (first_) Add(Kind::kJob, "job " + now_.job + ", strategy " + now_.strategy);
    if (now_.term != before_.term && now_.term > 1)
      Add(Kind::kWarning, "a coordinator of term " + std::to_string(now_.term) + " has taken over");
  }

  // Each coordinator counts from 1 on.
  void CompareDepartures() {
    uint64_t known = 0;
    if (now_.term == before_.term && !before_.departed.empty()) known = before_.departed.back().number;
    for (const DepartureReading& gone : now_.departed) {
      if (gone.number <= known) continue;
      explained_.insert(gone.node);
      Add(gone.how == "left" ? Kind::kLeft : Kind::kDied, gone.member + " " + HowGone(gone.how), gone.member,
          gone.node);
    }
    for (const MemberReading& m : before_.members) {
      if (now_.Find(m.node) == nullptr && !explained_.contains(m.node))
        Add(Kind::kLeft, m.name() + " is gone", m.name(), m.node);
    }
  }

  void CompareMembers() {
    for (const MemberReading& m : now_.members) {
      const MemberReading* before = before_.Find(m.node);
      if (before == nullptr) {
        Add(Kind::kJoined, m.name() + " joined (pid " + std::to_string(m.pid) + " on " + m.host + ")",
            m.name(), m.node);
        continue;
      }
      const auto begins = [&](bool MemberReading::*what, const char* text) {
        if (m.*what && !(before->*what)) Add(Kind::kWarning, m.name() + " " + text, m.name(), m.node);
      };
      begins(&MemberReading::stuck, "is alive and does nothing");
      begins(&MemberReading::skewed, "gets events that are unlike those of the others");
      if (before->state == "standby" && m.state.empty())
        Add(Kind::kMember, before->name() + " takes part as " + m.name(), m.name(), m.node);
      if (before->state != "draining" && m.state == "draining")
        Add(Kind::kMember, m.name() + " hands over what it has, and leaves", m.name(), m.node);
      for (const std::string& peer : m.unreachable) {
        if (std::ranges::count(before->unreachable, peer) == 0)
          Add(Kind::kWarning, m.name() + " cannot reach " + peer, m.name(), m.node);
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
    const auto wish = [this](double now, double before, const char* what) {
      if (!std::isnan(now) && !std::isnan(before) && now != before)
        Add(Kind::kJob, Count(now, what) + (now == 1 ? " is wanted" : " are wanted") +
                            (now_.wanted_reason.empty() ? "" : ": " + now_.wanted_reason));
    };
    wish(now_.wanted_workers, before_.wanted_workers, "worker");
    wish(now_.wanted_servers, before_.wanted_servers, "server");
    if (now_.planned_moves > 0 && before_.planned_moves == 0)
      Add(Kind::kJob,
          Count(static_cast<double>(now_.planned_moves), "slice") + " to be moved between servers");
    if (now_.planned_moves == 0 && before_.planned_moves > 0)
      Add(Kind::kJob, "all slices are where they should be");
  }

  void CompareCheckpoints() {
    if (now_.checkpoint != before_.checkpoint && !now_.checkpoint.empty()) {
      if (!first_) Add(Kind::kCheckpoint, CheckpointName(now_.checkpoint) + " is complete");
    }
    if (now_.failed_checkpoints > Same(before_.failed_checkpoints))
      Add(Kind::kCheckpointFailed, "a checkpoint failed: " + now_.checkpoint_failure);
  }

  void CompareWarnings() {
    if (now_.drift_alarms > Same(before_.drift_alarms))
      Add(Kind::kDrift, "drift: alarm " + std::to_string(now_.drift_alarms) + " at event " +
                            std::to_string(std::llround(now_.drift_event)));
    if (now_.rejected_batches > Same(before_.rejected_batches))
      Add(Kind::kWarning, Count(static_cast<double>(now_.rejected_batches - Same(before_.rejected_batches)),
                                "batch with a gradient") +
                              " that is not finite");
    if (now_.conflicts > Same(before_.conflicts))
      Add(Kind::kWarning, "ledgers refused batches that contradict them");
    for (const std::string& warning : now_.warnings) {
      if (std::ranges::count(before_.warnings, warning) == 0) Add(Kind::kWarning, warning);
    }
  }

  void CompareDeadLetters() {
    for (const MemberReading& m : now_.members) {
      const MemberReading* before = before_.Find(m.node);
      if (!m.last_dead_letter.empty() &&
          (before == nullptr || before->last_dead_letter != m.last_dead_letter))
        Add(Kind::kDeadLetter, m.last_dead_letter, m.name(), m.node);
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
