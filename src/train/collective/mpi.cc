#include "train/collective/mpi.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "net/poller.h"
#include "protocol/allreduce/reduction.h"
#include "train/collective/mpi_module.h"

namespace leat::collective {
namespace {

using protocol::Hop;
using protocol::ReduceAction;

constexpr int kProgressTag = 1;
constexpr int kFirstPieceTag = 2;
constexpr int kTags = 1 << 20;  // two per bucket; in practice every MPI allows at least 2^23
// Pieces of phase 0 received at a time.
constexpr size_t kReceives = 2;
constexpr Duration kAwake = std::chrono::microseconds(200);
// MPI does not notify: polling intervals with and without work in progress.
constexpr Duration kAsk = std::chrono::milliseconds(1);
constexpr Duration kAskIdle = std::chrono::milliseconds(50);

// Members exchange their progress when a bucket takes long.
struct ProgressMessage {
  uint64_t bucket = 0;  // the oldest it waits for; ~0: it has ended
  uint64_t next = 0;    // the next that it will start
  uint32_t rank = 0;
};

// A bucket that goes from rank to rank and back.
struct Chain {
  struct Receive {
    Hop hop;
    int64_t request;
    std::unique_ptr<std::byte[]> memory;  // null: in place
  };
  struct Sending {
    Hop hop;
    int64_t request;
  };
  Chain(const protocol::ReduceShape& shape, uint32_t rank) : reduction(shape, rank) {}
  protocol::Reduction reduction;
  uint32_t next_up = 0, next_down = 0;  // pieces to be received next
  std::deque<Receive> up, down;
  std::deque<Sending> sending;
};

class MpiAllReduce final : public AllReduce, private net::Pollable {
 public:
  MpiAllReduce(net::Loop& loop, const LeatMpiModule& mpi, MpiOptions options, net::Done formed)
      : loop_(loop),
        mpi_(&mpi),
        options_(std::move(options)),
        rank_(options_.place.rank),
        members_(options_.place.members),
        exit_status_(options_.exit_status),
        formed_(std::move(formed)) {
    timer_ = loop_.After(options_.deadline, [this] {
      timer_ = 0;
      Fail({Code::kDeadlineExceeded, "not all MPI processes started in time"}, std::nullopt);
    });
    thread_ = StartThread([this] { BeginAndEnd(); });
  }

  ~MpiAllReduce() override {
    *here_ = false;
    loop_.Cancel(timer_);
    if (listening_) loop_.impl().Remove(this);
    if (failed_.has_value() || !running_.empty() || !listening_) EndJob();
    // A member lost now is lost for all; the wait is limited as for a bucket.
    Guard(options_.deadline, "the other MPI processes did not end in time");
    if (progress_request_ >= 0) mpi_->cancel(progress_request_);
    {
      const std::lock_guard lock(mutex_);
      may_end_ = true;
    }
    wake_.notify_one();
    thread_.join();
    *guard_off_ = true;
  }

  void Start(Bucket bucket, net::Done done) override {
    const uint64_t index = next_++;
    LEAT_CHECK(bucket.data.size() % bucket.reduce.element_bytes == 0);
    LEAT_CHECK(bucket.order == Order::kAny || rank_ > 0 || !bucket.lanes.empty());
    if (failed_.has_value()) return PostDone(std::move(done), *failed_);
    Running& running = running_.try_emplace(index, loop_, std::move(bucket), std::move(done)).first->second;
    loop_.impl().KeepPolling(running.started + kAwake);
    Bucket& mine = running.bucket;
    if (mine.order == Order::kLanes || mine.data.size() >= options_.chain_bytes) {
      if (mine.order == Order::kAny) mine.lanes = {mine.data};
      const protocol::ReduceShape shape{.path = protocol::ReducePath::kChain,
                                        .members = members_,
                                        .bytes = mine.data.size(),
                                        .piece_bytes = options_.piece_bytes,
                                        .eager_bytes = ~uint64_t{0}};
      running.chain = std::make_unique<Chain>(shape, rank_);
      running.chain->reduction.Begin();
      Advance(index, running);
      return;
    }
    running.request =
        mpi_->all_reduce(mine.data.data(), mine.data.size() / mine.reduce.element_bytes, mine.reduce.kind);
    if (running.request < 0) Fail({Code::kUnavailable, "MPI_Iallreduce failed"}, std::nullopt);
  }

  void Abort(Status why) override {
    if (options_.exit_status_of && !failed_.has_value()) exit_status_ = options_.exit_status_of(why);
    Fail(std::move(why), std::nullopt);
  }
  uint32_t rank() const override { return rank_; }
  uint32_t members() const override { return members_; }
  std::optional<uint32_t> lost() const override { return lost_; }

 private:
  struct Running {
    Running(net::Loop& loop, Bucket its_bucket, net::Done its_done)
        : bucket(std::move(its_bucket)), done(std::move(its_done)), started(loop.Now()), busy_poll(loop) {}
    Bucket bucket;
    net::Done done;
    const Time started;
    const net::Loop::BusyPoll busy_poll;
    int64_t request = -1;
    std::unique_ptr<Chain> chain;
  };

  // ---- initialization

  // The thread that initializes and finalizes MPI, since both wait for the other members. All calls in
  // between are made by the loop.
  void BeginAndEnd() {
    uint32_t rank = 0, members = 0;
    const char* const refusal = mpi_->init(&rank, &members);
    loop_.Post([this, here = here_, refusal, rank, members] {
      if (*here) OnBegun(refusal, rank, members);
    });
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return may_end_; });
    mpi_->finalize();
  }

  void OnBegun(const char* refusal, uint32_t rank, uint32_t members) {
    loop_.Cancel(std::exchange(timer_, 0));
    if (failed_.has_value()) return;
    if (refusal != nullptr) return Fail({Code::kUnavailable, refusal}, std::nullopt);
    if (rank != rank_ || members != members_) {
      return Fail(
          {Code::kFailedPrecondition, "MPI says rank " + std::to_string(rank) + " of " +
                                          std::to_string(members) + ", but the environment says rank " +
                                          std::to_string(rank_) + " of " + std::to_string(members_)},
          std::nullopt);
    }
    listening_ = true;
    loop_.impl().Add(this);
    AwaitProgress();
    if (formed_) std::exchange(formed_, nullptr)(Status());
  }

  void PostDone(net::Done done, Status status) {
    loop_.Post([here = here_, done = std::move(done), status = std::move(status)] {
      if (*here) done(status);
    });
  }

  // ---- net::Pollable

  bool Poll() override {
    if (failed_.has_value()) return false;
    bool any = ReceiveProgress();
    for (auto at = running_.begin(); at != running_.end() && !failed_.has_value();) {
      const auto running = at++;
      if (Advance(running->first, running->second)) any = true;
    }
    if (any) loop_.impl().KeepPolling(loop_.Now() + kAwake);
    CheckDeadline();
    return any;
  }
  Duration MaxSleep() override {
    if (failed_.has_value()) return net::kForever;
    return running_.empty() ? kAskIdle : kAsk;
  }

  // 1: completed, 0: pending, -1: failed, and so has the group.
  int Test(int64_t request) {
    const int done = mpi_->test(request);
    if (done < 0) Fail({Code::kUnavailable, "MPI has lost a member"}, std::nullopt);
    return done;
  }

  // Advances a bucket and removes it when it is complete; false if nothing happened.
  bool Advance(uint64_t index, Running& running) {
    if (running.chain != nullptr) return AdvanceChain(index, running);
    if (Test(running.request) <= 0) return false;
    Finish(index);
    return true;
  }

  void Finish(uint64_t index) {
    auto over = running_.extract(index);
    PostDone(std::move(over.mapped().done), {});
  }

  bool AdvanceChain(uint64_t index, Running& running) {
    Chain& chain = *running.chain;
    auto& reduction = chain.reduction;
    const auto tag = [&](uint32_t phase) {
      return kFirstPieceTag + static_cast<int>(index % kTags) * 2 + static_cast<int>(phase);
    };
    const auto receive = [&](const Hop& hop, std::deque<Chain::Receive>& into, bool in_place) {
      const auto range = reduction.piece(hop.piece);
      std::unique_ptr<std::byte[]> memory(in_place ? nullptr : new std::byte[range.bytes]);
      std::byte* to = in_place ? running.bucket.data.data() + range.begin : memory.get();
      const int64_t request = mpi_->receive(to, range.bytes, hop.peer, tag(hop.phase));
      if (request < 0) return Fail({Code::kUnavailable, "MPI_Irecv failed"}, std::nullopt);
      into.push_back({hop, request, std::move(memory)});
    };
    bool any = false;
    for (bool more = true; more && !failed_.has_value();) {
      more = false;
      for (; rank_ > 0 && chain.up.size() < kReceives && chain.next_up < reduction.pieces(); ++chain.next_up)
        receive({rank_ - 1, 0, chain.next_up}, chain.up, false);
      for (; rank_ + 1 < members_ && chain.down.size() < kReceives && chain.next_down < reduction.pieces();
           ++chain.next_down) {
        receive({rank_ + 1, 1, chain.next_down}, chain.down, true);
      }
      if (!chain.sending.empty() && Test(chain.sending.front().request) == 1) {
        const Hop hop = chain.sending.front().hop;
        chain.sending.pop_front();
        reduction.Sent(hop);
        more = true;
      }
      for (auto* coming : {&chain.up, &chain.down}) {
        if (failed_.has_value() || coming->empty() || Test(coming->front().request) != 1) continue;
        arrived_ = std::move(coming->front().memory);
        const Hop hop = coming->front().hop;
        coming->pop_front();
        reduction.Arrived(hop);
        if (Act(index, running, tag)) return true;
        more = true;
      }
      if (!failed_.has_value() && Act(index, running, tag)) return true;
      any = any || more;
    }
    return any;
  }

  // Executes the pending actions; true when the bucket is complete.
  template <class Tag>
  bool Act(uint64_t index, Running& running, const Tag& tag) {
    ReduceAction action;
    auto& reduction = running.chain->reduction;
    while (!failed_.has_value() && reduction.Next(&action)) {
      const auto range = reduction.piece(action.hop.piece);
      switch (action.kind) {
        case ReduceAction::Kind::kCombine:
        case ReduceAction::Kind::kOwn:
          CombineLanes(running.bucket, range.begin, range.bytes,
                       action.kind == ReduceAction::Kind::kOwn ? nullptr : arrived_.get());
          break;
        case ReduceAction::Kind::kSend: {
          const int64_t request = mpi_->send(running.bucket.data.data() + range.begin, range.bytes,
                                             action.hop.peer, tag(action.hop.phase));
          if (request < 0) {
            Fail({Code::kUnavailable, "MPI_Isend failed"}, std::nullopt);
            return false;
          }
          running.chain->sending.push_back({action.hop, request});
          break;
        }
        case ReduceAction::Kind::kReady:
          break;  // MPI buffers early messages
        case ReduceAction::Kind::kFinished:
          Finish(index);
          return true;
      }
    }
    return false;
  }

  // ---- deadlines

  void AwaitProgress() {
    progress_request_ =
        mpi_->receive(&received_progress_, sizeof(received_progress_), LeatMpiModule::kAnyone, kProgressTag);
  }

  bool ReceiveProgress() {
    if (progress_request_ < 0 || Test(progress_request_) != 1) return false;
    const ProgressMessage progress = received_progress_;
    AwaitProgress();
    if (progress.rank < members_) peer_progress_[progress.rank] = progress;
    // A member that asks gets this member's progress.
    if (progress.bucket != ~uint64_t{0} && !sent_progress_.contains(progress.bucket))
      SendProgress(progress.bucket);
    return true;
  }

  // To all others, once per bucket asked about.
  void SendProgress(uint64_t bucket) {
    sent_progress_[bucket] = {.bucket = bucket, .next = next_, .rank = rank_};
    for (uint32_t other = 0; other < members_; ++other) {
      if (other != rank_) mpi_->send(&sent_progress_[bucket], sizeof(ProgressMessage), other, kProgressTag);
    }
  }

  void CheckDeadline() {
    if (running_.empty() || failed_.has_value()) return;
    const auto& [index, oldest] = *running_.begin();
    const Duration age = loop_.Now() - oldest.started;
    if (age >= options_.deadline * 3 / 4 && !sent_progress_.contains(index)) SendProgress(index);
    if (age < options_.deadline) return;
    const auto stop = [&](uint32_t rank, const char* what) {
      Fail({Code::kDeadlineExceeded, "all-reduce " + std::to_string(index) +
                                         " was not complete in time: rank " + std::to_string(rank) + " " +
                                         what},
           rank);
    };
    for (uint32_t other = 0; other < members_; ++other) {
      if (other == rank_) continue;
      const auto progress = peer_progress_.find(other);
      if (progress == peer_progress_.end() || progress->second.bucket < index)
        return stop(other, "does not answer");
      if (progress->second.next <= index) return stop(other, "has not started it");
    }
    if (age >= options_.deadline * 5 / 4) stop(rank_, "does not proceed, and all others wait for each other");
  }

  // ---- the end

  void Fail(Status why, std::optional<uint32_t> lost) {
    if (failed_.has_value()) return;
    failed_ = why;
    lost_ = lost;
    if (formed_) PostDone(std::exchange(formed_, nullptr), why);
    for (auto& [index, running] : running_) PostDone(std::move(running.done), why);
    Guard(options_.exit_grace, why.message());
  }

  void EndJob() {
    const std::string why = failed_.has_value() ? failed_->message()
                            : listening_        ? "ended in the middle of an all-reduce"
                                                : "ended before all MPI processes had started";
    std::fprintf(stderr, "rank %u: %s; ending the job\n", rank_, why.c_str());
    std::fflush(stderr);
    Guard(std::chrono::seconds(1), {});
    if (listening_) mpi_->abort(exit_status_);
    _exit(exit_status_);
  }

  // A thread that ends the process after a while, wherever it hangs. It does not call MPI_Abort, since MPI
  // itself may hang; mpirun ends the other processes when one exits with an error status.
  void Guard(Duration after, std::string why) {
    guard_off_ = std::make_shared<std::atomic<bool>>(false);
    const auto guard = [off = guard_off_, after, why = std::move(why), rank = rank_, status = exit_status_] {
      for (Duration slept{}; slept < after; slept += std::chrono::milliseconds(10)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        if (*off) return;
      }
      if (!why.empty()) std::fprintf(stderr, "rank %u: %s; ending the job\n", rank, why.c_str());
      std::fflush(stderr);
      _exit(status);
    };
    try {
      StartThread(guard).detach();
    } catch (const std::exception& error) {  // nothing would end a process that hangs
      EndProcess(error);
    }
  }

  net::Loop& loop_;
  const LeatMpiModule* const mpi_;
  const MpiOptions options_;
  const uint32_t rank_, members_;
  int exit_status_;
  net::Done formed_;
  uint64_t timer_ = 0;
  bool listening_ = false;  // MPI is initialized and polled
  uint64_t next_ = 0;
  std::map<uint64_t, Running> running_;
  std::unique_ptr<std::byte[]> arrived_;  // the piece to be added now
  ProgressMessage received_progress_;
  int64_t progress_request_ = -1;
  std::map<uint32_t, ProgressMessage> peer_progress_;  // the last one of each
  std::map<uint64_t, ProgressMessage> sent_progress_;
  std::optional<Status> failed_;
  std::optional<uint32_t> lost_;
  std::shared_ptr<std::atomic<bool>> guard_off_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // false once destroyed
  std::mutex mutex_;
  std::condition_variable wake_;
  bool may_end_ = false;  // guarded by mutex_
  std::thread thread_;
};

std::optional<uint32_t> NumberFrom(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? std::nullopt : ToNumber<uint32_t>(value);
}

}  // namespace

std::optional<protocol::MpiRank> FindMpiRank() {
  // Open MPI's mpirun; MPICH, Intel MPI and srun with PMI; srun with PMIx.
  constexpr std::pair<const char*, const char*> kNames[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                            {"PMI_RANK", "PMI_SIZE"},
                                                            {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank_name, members_name] : kNames) {
    const auto rank = NumberFrom(rank_name), members = NumberFrom(members_name);
    if (rank && members && *rank < *members) return protocol::MpiRank{*rank, *members};
  }
  return std::nullopt;
}

Result<const LeatMpiModule*> LoadMpi(const std::string& path) {
  std::string file = path;
  if (file.empty()) {
    std::error_code error;
    file = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "leat_mpi.so";
  }
  // Global, because Open MPI's plugins look up its symbols there.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return Status(Code::kNotFound, std::string("cannot load MPI: ") + dlerror());
  const auto function = reinterpret_cast<LeatMpiModuleFunction>(dlsym(library, "leat_mpi_module"));
  const LeatMpiModule* const mpi = function != nullptr ? function() : nullptr;
  if (mpi == nullptr || mpi->version != LeatMpiModule::kVersion)
    return Status(Code::kFailedPrecondition, file + " has another version than this program");
  return mpi;
}

std::unique_ptr<AllReduce> MakeMpiAllReduce(net::Loop& loop, const LeatMpiModule& mpi, MpiOptions options,
                                            net::Done formed) {
  return std::make_unique<MpiAllReduce>(loop, mpi, std::move(options), std::move(formed));
}

}  // namespace leat::collective
