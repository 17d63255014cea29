#include "net/ucx/ucx_endpoint.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fields/fields.h"
#include "net/security/private_file.h"

namespace leat::net {
namespace {

// Over shared memory a fragment is one of kSlots slots of a queue in the receiver's memory. The sender can
// reuse slots after each kSlotsFreed that the receiver has read.
//
// The window bounds the transfer between two processes that must wait for a core before they see each other's
// writes. Each end needs that much memory.
constexpr Fragments kHostFragments{
    .bytes = 16 << 10, .window = 44, .taken_after = 11, .shared_payloads = 8, .arrives = true};
constexpr uint32_t kSlots = 64;
constexpr uint32_t kSlotsFreed = 8;
constexpr uint32_t kSlotOverhead = 256;  // for UCX's own headers, with a margin
static_assert(kHostFragments.window + kHostFragments.window / kHostFragments.taken_after +
                  kHostFragments.shared_payloads + kSlotsFreed <=
              kSlots);
// Over a network, fragments are copied and wait in memory of the endpoint.
constexpr Fragments kNetworkFragments{
    .bytes = 64 << 10, .window = 32, .taken_after = 8, .shared_payloads = 0, .arrives = false};

// Larger than what UCX sends eagerly: the rendezvous makes both ends known to each other.
constexpr size_t kGreetingBytes = 1024;

enum Id : unsigned { kFragment = 1, kTaken = 2, kGreeting = 3 };

// The UCX functions in use, resolved at run time. A process without peers on its host does not load UCX, and
// Leat runs without UCX.
#define LEAT_UCP_FUNCTIONS                                                                          \
  config_read, config_modify, config_release, init_version, cleanup, worker_create, worker_destroy, \
      worker_get_efd, worker_arm, worker_progress, worker_get_address, worker_release_address,      \
      worker_set_am_recv_handler, ep_create, am_send_nbx, request_check_status, request_free
#define LEAT_UCP_MEMBER(name) decltype(&::ucp_##name) name;
#define LEAT_UCP_FOUND(name) &&Find(ucp, "ucp_" #name, &api.name)

struct Api {
  LEAT_EACH(LEAT_UCP_MEMBER, LEAT_UCP_FUNCTIONS)
  decltype(&::ucs_status_string) status_string;
  ucs_status_t (*global_opts_set_value)(const char* name, const char* value);
  pid_t pid = 0;  // the process that loaded it
};

template <class Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

std::optional<Api> Load() {
  // UCX would install handlers for crashes of this process; this prevents it.
  constexpr std::array kCrashes = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  std::array<struct sigaction, kCrashes.size()> before;
  for (size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], nullptr, &before[i]);
  // Also prevents UCX from intercepting mmap and madvise. UCX reads this from the environment while it is
  // loaded.
  setenv("UCX_MEM_EVENTS", "n", 1);
  setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
  void* const ucp = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);  // never closed: it has a thread of its own
  void* const ucs = dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], &before[i], nullptr);
  if (ucp == nullptr || ucs == nullptr) return std::nullopt;
  Api api{};
  api.pid = getpid();
  const bool found = Find(ucs, "ucs_status_string", &api.status_string) &&
                     Find(ucs, "ucs_global_opts_set_value", &api.global_opts_set_value)
                         LEAT_EACH(LEAT_UCP_FOUND, LEAT_UCP_FUNCTIONS);
  if (!found) return std::nullopt;
  // Errors are reported by statuses. VFS_ENABLE: no thread that serves a file system of UCX's state.
  api.global_opts_set_value("LOG_LEVEL", "fatal");
  api.global_opts_set_value("WARN_UNUSED_ENV_VARS", "n");
  api.global_opts_set_value("VFS_ENABLE", "n");
  return api;
}

Result<const Api*> GetApi() {
  static const std::optional<Api> api = Load();
  if (!api) return Status(Code::kNotFound, "cannot load libucp.so.0");
  if (api->pid != getpid()) {
    return Status(Code::kUnavailable,
                  "UCX was loaded before the fork of this process and cannot be used in it");
  }
  return &*api;
}

Status Failed(const Api& api, const std::string& what, ucs_status_t why) {
  return {Code::kUnavailable, "UCX: " + what + ": " + api.status_string(why)};
}

// ---- the folder of shared memory segments

// UCX creates a file for each segment, fills it and unlinks it. A process killed in between leaves the file
// behind. The files are therefore made in a folder that exists only meanwhile and is locked by its process,
// so that a later process can find and remove it.
constexpr const char* kShm = "/dev/shm";
constexpr const char* kFolder = "leat-ucx-";
// It takes some microseconds; a process that has stopped meanwhile may hold the folder for ever.
constexpr Duration kFolderDeadline = std::chrono::seconds(1);

class SegmentFolder {
 public:
  // Another process that removes the folders of dead ones may find this one before it is locked.
  explicit SegmentFolder(const std::string& path) : path_(path) {
    const MonotonicClock clock;
    for (const Time until = clock.Now() + kFolderDeadline; !ok() && clock.Now() < until;) {
      if (mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) return;
      lock_ = LockFolder(path_);
      if (!ok()) std::this_thread::yield();
    }
  }
  ~SegmentFolder() {
    std::error_code ignored;
    if (ok()) std::filesystem::remove_all(path_, ignored);
  }
  bool ok() const { return lock_.ok(); }

 private:
  const std::string path_;
  Descriptor lock_;
};

std::string NewFolderName() {
  static std::atomic<uint64_t> count{0};
  std::string name(kShm);
  name.append("/").append(kFolder).append(std::to_string(getpid())).append("-");
  return name.append(std::to_string(++count));
}

// ---- context

// UCX keeps settings, components and memory per process, and does not guard all of them against threads that
// create and destroy their own contexts and workers concurrently.
std::mutex& SettingUp() {
  static std::mutex mutex;
  return mutex;
}

struct Context final : UcxContext {
  Context(const Api& its_api, const Fragments& its_fragments, std::string its_folder)
      : api(its_api), cut(its_fragments), folder(std::move(its_folder)) {}
  ~Context() override {
    const std::lock_guard lock(SettingUp());
    if (context != nullptr) api.cleanup(context);
  }
  const Fragments& fragments() const override { return cut; }

  const Api& api;
  const Fragments cut;
  const std::string folder;  // folder of segments; empty: no segments
  ucp_context_h context = nullptr;
};

using Settings = std::vector<std::pair<const char*, std::string>>;

Result<std::shared_ptr<UcxContext>> MakeUcxContext(const Fragments& fragments, std::string folder,
                                                   const Settings& settings) {
  LEAT_ASSIGN_OR_RETURN(const Api* const api, GetApi());
  const auto made = std::make_shared<Context>(*api, fragments, std::move(folder));
  std::unique_lock lock(SettingUp());
  std::optional<SegmentFolder> there;  // UCX checks the free space there
  if (!made->folder.empty()) there.emplace(made->folder);
  ucp_config_t* config = nullptr;
  if (const auto s = api->config_read("LEAT", nullptr, &config); s != UCS_OK) {
    lock.unlock();
    return Failed(*api, "settings", s);
  }
  ucs_status_t status = UCS_OK;
  for (const auto& [name, value] : settings) {
    if (status == UCS_OK) status = api->config_modify(config, name, value.c_str());
  }
  if (status == UCS_OK) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    status = api->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &made->context);
  }
  api->config_release(config);
  lock.unlock();  // a context that failed takes the lock in its destructor
  if (status != UCS_OK) return Failed(*api, "context", status);
  return std::shared_ptr<UcxContext>(made);
}

// Settings of both kinds: one message is one fragment, over one lane, copied.
Settings Common(const std::string& transports) {
  return {{"TLS", transports},     {"RNDV_THRESH", "inf"}, {"ZCOPY_THRESH", "inf"},  {"MAX_EAGER_RAILS", "1"},
          {"MAX_RNDV_RAILS", "1"}, {"PROTO_ENABLE", "n"},  {"ADDRESS_VERSION", "v1"}};
}

}  // namespace

Result<std::shared_ptr<UcxContext>> UcxContext::ForHost(bool network) {
  RemoveLeftFolders(kShm, kFolder);
  std::string folder = NewFolderName();
  Settings settings = Common("posix");
  settings.emplace_back("DIR", folder);
  settings.emplace_back("USE_PROC_LINK", "y");
  settings.emplace_back("MM_HUGETLB_MODE", "n");
  settings.emplace_back("MM_FIFO_HUGETLB", "n");
  settings.emplace_back("MM_FIFO_SIZE", std::to_string(kSlots));
  settings.emplace_back("MM_FIFO_ELEM_SIZE", "128");
  settings.emplace_back("MM_FIFO_RELEASE_FACTOR", std::to_string(double{kSlotsFreed} / kSlots));
  settings.emplace_back("MM_SEG_SIZE", std::to_string(kHostFragments.bytes + kSlotOverhead));
  settings.emplace_back("MM_RX_BUFS_GROW", std::to_string(kSlots + 2));
  settings.emplace_back("KEEPALIVE_INTERVAL", "inf");  // the socket beside it reports the death of a peer
  LEAT_ASSIGN_OR_RETURN(const Api* const api, GetApi());
  // Shared memory does not need UCX's hardware modules.
  if (!network) {
    const std::lock_guard lock(SettingUp());
    api->global_opts_set_value("MODULES", "none");
  }
  return MakeUcxContext(kHostFragments, std::move(folder), settings);
}

Result<std::shared_ptr<UcxContext>> UcxContext::ForNetwork(const std::string& transports) {
  return MakeUcxContext(kNetworkFragments, {}, Common(transports));
}

// ---- endpoint

namespace {

class Port final : public UcxEndpoint {
 public:
  Port(std::shared_ptr<Context> context, Handler* handler)
      : context_(std::move(context)), api_(context_->api), handler_(handler) {}
  ~Port() override {
    if (worker_ == nullptr) return;
    const std::lock_guard lock(SettingUp());
    for (auto& slot : slots_) {
      if (slot.request != nullptr) api_.request_free(slot.request);
    }
    if (greeting_request_ != nullptr) api_.request_free(greeting_request_);
    api_.worker_destroy(worker_);
  }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  Status Open() {
    const std::lock_guard lock(SettingUp());
    std::optional<SegmentFolder> folder;
    if (!context_->folder.empty()) {
      folder.emplace(context_->folder);
      if (!folder->ok())
        return {Code::kUnavailable, "cannot make a folder for shared memory: " + context_->folder};
    } else {
      slots_.resize(context_->cut.window);
    }
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    if (const auto s = api_.worker_create(context_->context, &params, &worker_); s != UCS_OK) {
      worker_ = nullptr;
      return Failed(api_, "worker", s);
    }
    if (const auto s = api_.worker_get_efd(worker_, &fd_); s != UCS_OK) return Failed(api_, "wake-up", s);
    LEAT_RETURN_IF_ERROR(Handle(
        kFragment, [](void* arg, const void*, size_t, void* data, size_t size, const ucp_am_recv_param_t*) {
          static_cast<Port*>(arg)->handler_->OnFragment({static_cast<const std::byte*>(data), size});
          return UCS_OK;
        }));
    LEAT_RETURN_IF_ERROR(Handle(
        kTaken, [](void* arg, const void* header, size_t size, void*, size_t, const ucp_am_recv_param_t*) {
          std::array<uint32_t, 2> taken{};
          if (size == sizeof(taken)) std::memcpy(taken.data(), header, size);
          static_cast<Port*>(arg)->handler_->OnTaken(taken[0], taken[1]);
          return UCS_OK;
        }));
    return Handle(kGreeting, [](void* arg, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
      static_cast<Port*>(arg)->greeted_ = true;
      return UCS_OK;
    });
  }

  Bytes address() const override {
    ucp_address_t* address = nullptr;
    size_t size = 0;
    if (api_.worker_get_address(worker_, &address, &size) != UCS_OK) return {};
    const auto* bytes = reinterpret_cast<const std::byte*>(address);
    Bytes copy(bytes, bytes + size);
    api_.worker_release_address(worker_, address);
    return copy;
  }

  Status Connect(ByteView address) override {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    // Over shared memory nothing fails when a peer dies; the socket beside it reports it.
    params.err_mode = slots_.empty() ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
    const std::lock_guard lock(SettingUp());
    if (const auto s = api_.ep_create(worker_, &params, &endpoint_); s != UCS_OK) {
      return Failed(api_, "endpoint", s);
    }
    return Start(kGreeting, {}, greeting_.data(), greeting_.size(), Contiguous(), &greeting_request_);
  }

  bool connected() const override { return greeted_ && endpoint_ != nullptr && greeting_request_ == nullptr; }

  bool CanSend() override { return slots_.empty() || Ended(&slots_[next_slot_].request); }

  Status Send(std::span<const iovec> pieces) override {
    if (slots_.empty()) return SendNow(pieces);
    Slot& slot = slots_[next_slot_];
    next_slot_ = (next_slot_ + 1) % slots_.size();
    slot.bytes.clear();
    for (const iovec& piece : pieces) {
      const auto* bytes = static_cast<const std::byte*>(piece.iov_base);
      slot.bytes.insert(slot.bytes.end(), bytes, bytes + piece.iov_len);
    }
    return Start(kFragment, {}, slot.bytes.data(), slot.bytes.size(), Contiguous(), &slot.request);
  }

  Status SendTaken(uint32_t fragments, uint32_t messages) override {
    // Short, and UCX reads its memory only during the call.
    void* request = nullptr;
    const std::array taken{fragments, messages};
    LEAT_RETURN_IF_ERROR(Start(kTaken, std::as_bytes(std::span(taken)), nullptr, 0, Contiguous(), &request));
    if (request == nullptr) return {};
    api_.request_free(request);
    return Full();
  }

  bool Progress() override {
    const bool any = api_.worker_progress(worker_) != 0;
    if (greeting_request_ != nullptr) Ended(&greeting_request_);
    return any;
  }

  int fd() const override { return fd_; }
  bool Arm() override { return api_.worker_arm(worker_) == UCS_OK; }

 private:
  struct Slot {
    Bytes bytes;
    void* request = nullptr;  // null: the bytes are discarded
  };

  static ucp_datatype_t Contiguous() { return ucp_dt_make_contig(1); }
  static Status Full() { return {Code::kDataLoss, "the peer acknowledged fragments that it has not read"}; }

  Status Handle(Id id, ucp_am_recv_callback_t handle) {
    ucp_am_handler_param_t params{};
    params.field_mask =
        UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    params.id = id;
    params.cb = handle;
    params.arg = this;
    if (const auto s = api_.worker_set_am_recv_handler(worker_, &params); s != UCS_OK) {
      return Failed(api_, "handler", s);
    }
    return {};
  }

  // *request is null if the operation is complete.
  Status Start(Id id, ByteView header, const void* data, size_t count, ucp_datatype_t type, void** request) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
    params.flags = UCP_AM_SEND_FLAG_EAGER;
    params.datatype = type;
    void* const sending = api_.am_send_nbx(endpoint_, id, header.data(), header.size(), data, count, &params);
    if (UCS_PTR_IS_ERR(sending)) return Failed(api_, "sending", UCS_PTR_STATUS(sending));
    *request = sending;
    return {};
  }

  // Writes directly from the sender's memory to the receiver's queue. The queue has room, so this completes
  // before it returns.
  Status SendNow(std::span<const iovec> pieces) {
    void* request = nullptr;
    if (pieces.size() == 1) {
      LEAT_RETURN_IF_ERROR(
          Start(kFragment, {}, pieces[0].iov_base, pieces[0].iov_len, Contiguous(), &request));
    } else {
      list_.clear();
      for (const iovec& piece : pieces) list_.push_back({piece.iov_base, piece.iov_len});
      LEAT_RETURN_IF_ERROR(Start(kFragment, {}, list_.data(), list_.size(), UCP_DATATYPE_IOV, &request));
    }
    if (request == nullptr) return {};
    // The memory must not be accessed later: on this error the caller destroys the endpoint.
    api_.request_free(request);
    return Full();
  }

  // True if the request is complete or null. A failed one counts as complete: the socket reports the failure.
  bool Ended(void** request) {
    if (*request == nullptr) return true;
    if (api_.request_check_status(*request) == UCS_INPROGRESS) return false;
    api_.request_free(std::exchange(*request, nullptr));
    return true;
  }

  const std::shared_ptr<Context> context_;
  const Api& api_;
  Handler* const handler_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  int fd_ = -1;
  const std::array<std::byte, kGreetingBytes> greeting_{};
  void* greeting_request_ = nullptr;
  bool greeted_ = false;
  std::vector<ucp_dt_iov_t> list_;
  std::vector<Slot> slots_;  // empty: fragments need not wait
  size_t next_slot_ = 0;
};

}  // namespace

Result<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Make(std::shared_ptr<UcxContext> context,
                                                       Handler* handler) {
  auto port = std::make_unique<Port>(std::static_pointer_cast<Context>(std::move(context)), handler);
  LEAT_RETURN_IF_ERROR(port->Open());
  return std::unique_ptr<UcxEndpoint>(std::move(port));
}

}  // namespace leat::net
