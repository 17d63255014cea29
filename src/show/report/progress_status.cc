#include <cmath>
#include <numeric>

#include "show/report/progress.h"

namespace leat::report {
namespace {

// A worker is slow if its step takes this many times the usual step, and its steps take at least this share
// of its time: others do not wait for one that waits itself.
constexpr double kSlow = 1.5;
constexpr double kSlowShare = 0.1;

// Bots that have reported nothing for so long have ended.
constexpr Duration kBotsGone = std::chrono::seconds(5);

// The 99th percentile of staleness.
size_t Percentile99(const std::vector<uint64_t>& histogram) {
  const uint64_t count = std::accumulate(histogram.begin(), histogram.end(), uint64_t{0});
  uint64_t so_far = 0;
  for (size_t i = 0; i < histogram.size(); ++i) {
    so_far += histogram[i];
    if (so_far * 100 >= count * 99) return i;
  }
  return 0;
}

MemberName NameOf(const protocol::Member& member) {
  return {.role = std::string(protocol::Name(member.role)), .index = member.index, .node = member.node.value};
}

double Ratio(uint64_t part, uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

uint64_t Difference(uint64_t now, uint64_t before) {
  return now - std::min(now, before);
}

}  // namespace

class Progress::StatusMaker {
 public:
  StatusMaker(const Progress& progress, Time now, const protocol::CoordinatorStatus& from)
      : progress_(progress), now_(now), from_(from) {}

  JobStatus Make(double own_cpu_seconds) {
    to_.job = progress_.options_.job;
    to_.phase = fields::NameOf(from_.phase);
    to_.strategy = progress_.options_.strategy;
    AddThroughput();
    AddLearning();
    AddUpdates();
    AddEvents();
    AddSlices();
    AddWanted();
    AddMembers();
    AddVariables();
    AddRun(own_cpu_seconds);
    return std::move(to_);
  }

 private:
  void AddThroughput() {
    to_.events = from_.events;
    to_.training_s = TrainingSeconds();
    const auto here = static_cast<double>(Difference(from_.events, progress_.first_events_));
    if (to_.training_s > 0) to_.events_per_s = std::round(here / to_.training_s);
    const auto& recent = progress_.speed_;
    if (recent.size() >= 2 && now_ > recent.front().first) {
      const auto last = static_cast<double>(Difference(from_.events, recent.front().second));
      to_.events_per_s_now = std::round(last / Seconds(now_ - recent.front().first));
    }
  }

  Quality QualityOf(double loss, double correct, double absolute_error, double auc) const {
    const auto& options = progress_.options_;
    Quality quality{.loss = loss};
    if (options.task == nn::Task::kBinary || options.task == nn::Task::kClasses)
      quality.accuracy = correct / options.labels;
    if (options.task == nn::Task::kRegression) quality.mae = absolute_error / options.labels;
    if (options.task == nn::Task::kBinary) quality.auc = auc;
    return quality;
  }
  Quality QualityOf(const Totals& totals) const {
    const auto events = static_cast<double>(totals.workers.events);  // 0: no figure is a number
    return QualityOf(totals.workers.loss_sum / events, static_cast<double>(totals.workers.correct) / events,
                     totals.workers.absolute_error / events, totals.scores.Auc());
  }

  // Figures of the window, of the whole run, and with forgetting; steps are of the whole run.
  void AddLearning() {
    all_ = progress_.Sum();
    to_.steps = all_.workers.steps;
    Totals window = all_;
    const Totals& before = progress_.moments_.front();
    window.workers.events = Difference(window.workers.events, before.workers.events);
    window.workers.correct = Difference(window.workers.correct, before.workers.correct);
    window.workers.loss_sum -= before.workers.loss_sum;
    window.workers.absolute_error -= before.workers.absolute_error;
    window.scores.Subtract(before.scores);
    window.truths.Subtract(before.truths);
    to_.quality = QualityOf(window);
    if (progress_.options_.truth) to_.auc_possible = window.truths.Auc();
    to_.window = window.workers.events;
    to_.since_start = QualitySinceStart{all_.workers.events, QualityOf(all_)};
    const Prequential& figures = progress_.prequential_;
    if (const auto* fading = figures.fading()) {
      to_.fading =
          FadingQuality{fading->factor, QualityOf(fading->scores.loss(), fading->scores.correct(),
                                                  fading->scores.absolute_error(), fading->auc.Auc())};
    }
    if (const auto& drift = progress_.options_.drift) {
      to_.drift = {.detector = std::string(drift->detector_name()),
                   .on = std::string(fields::NameOf(drift->on)),
                   .alarms = figures.alarms()};
      if (const auto& last = figures.last_alarm()) to_.drift->last = {last->event, last->mean};
      if (drift->alarm == metrics::DriftConfig::Alarm::kRaiseRate)
        to_.drift->rate = static_cast<double>(from_.rate);
    }
  }

  // Updates that servers and members have applied, and their staleness.
  void AddUpdates() {
    servers_ = progress_.forgotten_servers_;
    for (const auto& [node, server] : progress_.servers_) Add(server, &servers_);
    to_.staleness_mean = Ratio(servers_.staleness_sum, servers_.staleness_count);
    to_.staleness = servers_.staleness;
    while (!to_.staleness.empty() && to_.staleness.back() == 0) to_.staleness.pop_back();
    to_.staleness_p99 = Percentile99(to_.staleness);
    to_.step = from_.step;
    to_.lanes = from_.lanes;
    to_.late = from_.late;
    to_.skipped = std::max(progress_.members_skipped_, servers_.skipped);
    if (const auto& optimizer = progress_.options_.optimizer) {
      // Stepped strategies have one version for all slices.
      const uint64_t updates = std::max(progress_.updates_, from_.step);
      to_.learning_rate =
          double{optimizer->learning_rate} * optim::ShareAt(optimizer->schedule, updates + 1) * from_.rate;
    }
  }

  // Which servers have each variable.
  void AddVariables() {
    if (progress_.options_.table == nullptr) return;
    const protocol::SliceTable& table = *progress_.options_.table;
    std::map<NodeId, uint32_t> servers;
    for (const auto& member : from_.view.members) {
      if (member.role == protocol::Role::kServer) servers[member.node] = member.index;
    }
    std::vector<std::map<uint32_t, uint64_t>> bytes(table.variables.size());  // by server
    for (size_t i = 0; i < std::min(table.slices.size(), from_.view.slices.size()); ++i) {
      const auto server = servers.find(from_.view.slices[i].server);
      if (server == servers.end()) continue;
      bytes[table.slices[i].variable][server->second] += table.slices[i].elements() * sizeof(float);
    }
    to_.variables.emplace();
    for (size_t v = 0; v < bytes.size(); ++v) {
      const auto all = static_cast<uint64_t>(table.variables[v].shape.elements()) * sizeof(float);
      auto& variable = to_.variables->emplace_back(VariableStatus{table.variables[v].name, all});
      for (const auto& [index, part] : bytes[v]) variable.ps.push_back({index, part});
    }
  }

  // Position in the stream, and counts of events, leases and checkpoints.
  void AddEvents() {
    const protocol::WorkerProgress& workers = all_.workers;
    to_.lag = from_.lag;
    constexpr size_t kMostPartitions = 16;
    to_.partitions = progress_.lag_.Behind(now_, kMostPartitions);
    for (const auto& behind : to_.partitions) to_.lag_s = std::max(to_.lag_s, behind.seconds);
    to_.stream_end = std::accumulate(from_.ends.begin(), from_.ends.end(), uint64_t{0});
    to_.published = progress_.published_;
    // They are no members of a view.
    for (const auto& [node, bots] : progress_.nodes_) {
      if (bots.role == protocol::Role::kBots && !bots.ends && now_ - bots.seen < kBotsGone)
        to_.bots.push_back({bots.host, bots.pid, bots.cpu_seconds, bots.metrics});
    }
    to_.predictions = from_.predictions;
    to_.unlabelled = from_.unlabelled;
    if (from_.unlabelled) to_.unjoined = workers.unjoined;
    const DeadLetters dead = progress_.dead_letters(from_);
    to_.dead_letters = dead.count;
    to_.last_dead_letter = dead.last;
    to_.lost_to_retention = workers.lost_to_retention;
    to_.feed_bytes = workers.feed_bytes;
    to_.feed_retries = workers.feed_retries;
    to_.push_retries = workers.push_retries;
    to_.rejected_batches = workers.rejected_batches;
    to_.duplicates = servers_.duplicates;
    to_.conflicts = servers_.conflicts;
    to_.leases = from_.leases;
    to_.regranted_leases = from_.regranted_leases;
    to_.overdue_leases = from_.overdue_leases;
    to_.evictions = from_.evictions;
    to_.failed_checkpoints = from_.failed_checkpoints;
    to_.checkpoint_failure = from_.checkpoint_failure;
    to_.waiting_for = from_.waiting_for;
    to_.generation = from_.view.generation.value;
    to_.term = protocol::NumberOf(from_.term);
  }

  void AddSlices() {
    const auto& moves = from_.moves;
    if (moves.planned + moves.slices + moves.failed > 0)
      to_.moves = {moves.planned, moves.slices, moves.bytes, servers_.bytes_moved, moves.failed};
    if (from_.replicas <= 1) return;
    to_.replicas = {from_.replicated, from_.view.slices.size(), {}};
    for (const auto& [servers, slices] : from_.replica_servers) {
      const auto *from = from_.view.Find(servers.first), *to = from_.view.Find(servers.second);
      if (from != nullptr && to != nullptr) to_.replicas->on.push_back({from->index, to->index, slices});
    }
  }

  void AddWanted() {
    const auto& wanted = from_.wanted;
    if (!wanted.workers.valid()) return;  // nothing is known of it
    to_.wanted = {.ps = wanted.servers, .granted = from_.grant, .hook_failure = wanted.hook_failure};
    if (wanted.now() > 0) to_.wanted->workers = wanted.now();
    if (!wanted.workers.fixed()) {
      to_.wanted->range = protocol::ToString(wanted.workers);
      to_.wanted->reason = wanted.reason;
    }
  }

  void AddMembers() {
    uint64_t held = 0;
    for (const auto& [node, server] : progress_.servers_) {
      if (from_.view.Find(node) != nullptr) held += server.bytes_held;
    }
    const double usual_s = progress_.UsualStep(from_.view);
    for (const auto& member : from_.view.members) {
      MemberStatus& m = to_.members.emplace_back(MemberStatus{.name = NameOf(member)});
      if (member.state != protocol::Member::State::kActive) m.name.state = fields::NameOf(member.state);
      const auto node = progress_.nodes_.find(member.node);
      if (node != progress_.nodes_.end()) AddProcess(member, node->second, &m);
      AddPlace(member.node, &m);
      if (const auto at = progress_.servers_.find(member.node); at != progress_.servers_.end()) {
        m.bytes_in = at->second.bytes_in;
        m.bytes_out = at->second.bytes_out;
        m.server = {at->second.bytes_held, Ratio(at->second.bytes_held, held),
                    std::round(node->second.traffic.per_s)};
      }
      if (const auto at = progress_.workers_.find(member.node); at != progress_.workers_.end())
        m.worker = FiguresOf(member.node, at->second, node->second, usual_s);
    }
    for (const auto& gone : from_.departures)
      to_.departed.push_back({gone.number, NameOf(gone.member), std::string(fields::NameOf(gone.how))});
    for (const auto& [member, host, pid] : from_.stuck_evicted)
      to_.stuck_evicted.push_back({NameOf(member), host, pid});
  }

  void AddProcess(const protocol::Member& member, const Node& n, MemberStatus* m) const {
    m->host = n.host;
    m->pid = n.pid;
    m->done = n.done;
    m->cpu_s = n.cpu_seconds;
    m->metrics = n.metrics;
    if (member.role == protocol::Role::kFeed) m->bytes_out = n.feed_bytes;
    if (member.role == protocol::Role::kServe) {
      m->bytes_in = n.follow.bytes_in;
      m->serve = {n.follow.interval_seconds, n.follow.stretched, n.follow.retries};
    }
    m->stuck = std::ranges::count(from_.stuck, member.node) > 0;
    for (const auto& [worker, peer] : from_.unreachable) {
      const protocol::Member* other = worker == member.node ? from_.view.Find(peer) : nullptr;
      if (other != nullptr) m->unreachable.push_back(protocol::Name(*other));
    }
  }

  void AddPlace(NodeId node, MemberStatus* m) const {
    const auto where =
        std::ranges::find(from_.whereabouts, node, &protocol::CoordinatorStatus::Whereabouts::node);
    if (where == from_.whereabouts.end()) return;
    if (where->round_trip > Duration(0)) m->round_trip_ms = Seconds(where->round_trip) * 1e3;
    m->site = where->place.site;
    m->zone = where->place.zone;
    m->host_class = where->place.host_class;
  }

  WorkerFigures FiguresOf(NodeId id, const protocol::WorkerProgress& worker, const Node& node,
                          double usual_s) const {
    WorkerFigures f{.progress = worker,
                    .longest_step_ms = worker.longest_step_seconds * 1e3,
                    .input_bytes_per_s = std::round(node.input.per_s),
                    .input_events_per_s = std::round(node.records.per_s)};
    if (node.step_s > 0) f.step_ms = node.step_s * 1e3;
    f.slow = node.step_s > kSlow * usual_s && node.busy_share >= kSlowShare;
    if (const auto* skew = progress_.shares_ ? progress_.shares_->Find(id) : nullptr) {
      f.label_skew = skew->label;
      f.feature_skew = skew->feature;
      f.skewed_feature = skew->feature_name;
      f.skewed = skew->label_skewed || skew->feature_skewed;
    }
    return f;
  }

  void AddRun(double own_cpu_seconds) {
    to_.aggregated_compute_s = own_cpu_seconds + progress_.forgotten_cpu_seconds_;
    for (const auto& [node, n] : progress_.nodes_) to_.aggregated_compute_s += n.cpu_seconds;
    to_.warnings = progress_.options_.warnings;
    for (const auto& [about, line] : from_.misplaced) to_.warnings.push_back(line);
    if (!progress_.stream_warning_.empty()) to_.warnings.push_back(progress_.stream_warning_);
    if (progress_.shares_) to_.skew_warnings = progress_.shares_->warnings();
    to_.wall_s = progress_.start_ < Time{0} ? 0 : Seconds(now_ - progress_.start_);
    if (from_.checkpoint) to_.checkpoint = from_.checkpoint_directory;
    to_.directory = progress_.options_.directory;
    to_.metrics = progress_.options_.metrics;
    to_.dashboard = progress_.options_.dashboard;
    if (const auto& saving = from_.saving)
      to_.saving = {saving->id, saving->bytes, saving->waiting_for, Seconds(saving->limit)};
  }

  // The time until the number of applied events last grew.
  double TrainingSeconds() const {
    const Time start = progress_.training_start_;
    if (start < Time{0}) return 0;
    return Seconds((progress_.last_change_ > start ? progress_.last_change_ : now_) - start);
  }

  const Progress& progress_;
  const Time now_;
  const protocol::CoordinatorStatus& from_;
  Totals all_;                        // since the start
  protocol::ServerProgress servers_;  // sum over all servers, lost ones included
  JobStatus to_;
};

JobStatus Progress::Show(Time now, const protocol::CoordinatorStatus& status, double own_cpu_seconds) const {
  return StatusMaker(*this, now, status).Make(own_cpu_seconds);
}

}  // namespace leat::report
