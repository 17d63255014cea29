// TLS over tcp between two threads on loopback, compared with plain tcp and AES-GCM one after the other, all
// in one run. Also the time from connect to the end of both handshakes.
//
// The bound takes AES-GCM on one thread that does nothing else, the fastest there is. One end encrypts and
// the other decrypts at the same time, so where the two have less than a processor each, the second
// comparison shows what TLS itself costs.

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "frame/measure.h"
#include "frame/report.h"
#include "net/security/certificate.h"
#include "net/tls/tls_identity.h"
#include "net/transport.h"
#include "net/transports.h"

namespace {

using namespace leat;

constexpr size_t kMessageBytes = 16 << 20;
constexpr size_t kRecordBytes = 16 << 10;  // the largest record of TLS
constexpr double kGibi = 1 << 30;
constexpr int kRounds = 7;

double Now() {
  return Seconds(MonotonicClock().Now());
}

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "tls: %s\n", why.c_str());
  std::exit(1);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "leat-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) Fail("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Makes the identity that both sides share.
std::shared_ptr<net::TlsIdentity> MakeIdentity(const std::filesystem::path& folder) {
  Status status = net::CreateAuthority(folder / "ca");
  if (status.ok()) {
    status = net::IssueCertificate(
        folder / "ca", folder / "both",
        {.roles = {"server", "worker"}, .hosts = {"127.0.0.1"}, .valid = std::chrono::hours(24)});
  }
  auto identity = net::TlsIdentity::Load(folder / "both");
  if (!status.ok()) Fail(status.message());
  if (!identity.ok()) Fail(identity.status().message());
  return std::move(*identity);
}

std::unique_ptr<net::Transport> MakeTransport(net::Loop& loop, std::shared_ptr<net::TlsIdentity> tls) {
  net::TransportOptions options{.token = "bench"};
  options.tls = std::move(tls);
  return net::MakeTcpTransport(loop, options);
}

// Answers each message without a payload.
class Sink final : public net::Receiver {
 public:
  explicit Sink(std::shared_ptr<net::TlsIdentity> tls) : room_(kMessageBytes) {
    std::promise<std::string> listening;
    auto address = listening.get_future();
    thread_ = std::thread([this, tls = std::move(tls), &listening] {
      const auto transport = MakeTransport(loop_, tls);
      const auto listener = transport->Listen("127.0.0.1:0", [this](std::unique_ptr<net::Connection> one) {
        connections_.push_back(std::move(one));
        return this;
      });
      if (!listener.ok()) Fail(listener.status().message());
      listening.set_value((*listener)->address());
      loop_.Run();
      connections_.clear();
    });
    address_ = address.get();
  }
  ~Sink() override {
    loop_.Stop();
    thread_.join();
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;
  const std::string& address() const { return address_; }

 private:
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t, ByteView,
                                                     uint64_t payload_bytes) override {
    return std::vector<std::span<std::byte>>{std::span(room_).first(payload_bytes)};
  }
  void OnMessage(net::Connection& connection) override { connection.Send(1, {}, {}); }
  void OnClosed(net::Connection& connection, const Status&) override {
    std::erase_if(connections_, [&](const auto& one) { return one.get() == &connection; });
  }

  net::Loop loop_;
  Bytes room_;
  std::vector<std::unique_ptr<net::Connection>> connections_;
  std::string address_;
  std::thread thread_;
};

class Source final : public net::Receiver {
 public:
  explicit Source(const std::shared_ptr<net::TlsIdentity>& tls)
      : sink_(tls), transport_(MakeTransport(loop_, tls)), payload_(kMessageBytes) {
    Connect();
  }

  // Seconds from connect to the end of the handshakes.
  double Connect() {
    connection_.reset();
    const double begin = Now();
    transport_->Connect(sink_.address(), this, std::chrono::seconds(10), [this](auto connected) {
      if (!connected.ok()) Fail(connected.status().message());
      connection_ = std::move(*connected);
    });
    while (connection_ == nullptr) loop_.RunOnce(std::chrono::seconds(1));
    return Now() - begin;
  }
  // Bytes per second in one direction, of messages that are answered one by one.
  double Rate(double seconds) {
    const double begin = Now();
    uint64_t count = 0;
    for (; count < 3 || Now() - begin < seconds; ++count) {
      answered_ = false;
      connection_->Send(1, {}, {ByteView(payload_)});
      while (!answered_) loop_.RunOnce(std::chrono::seconds(1));
    }
    return static_cast<double>(count * kMessageBytes) / (Now() - begin);
  }

 private:
  Result<std::vector<std::span<std::byte>>> OnHeader(net::Connection&, uint8_t, ByteView, uint64_t) override {
    return std::vector<std::span<std::byte>>{};
  }
  void OnMessage(net::Connection&) override { answered_ = true; }
  void OnClosed(net::Connection&, const Status& why) override { Fail(why.message()); }

  Sink sink_;
  net::Loop loop_;
  std::unique_ptr<net::Transport> transport_;
  Bytes payload_;
  bool answered_ = false;
  std::unique_ptr<net::Connection> connection_;
};

// AES-128-GCM in records of TLS, of a message, on one thread.
class Cipher {
 public:
  explicit Cipher(bool encrypts) : encrypts_(encrypts), text_(kMessageBytes), record_(kRecordBytes) {
    Begin(true);
    Record(record_, record_, true);
    EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag_.data());
    Begin(encrypts_);
  }

  // Bytes per second.
  double Rate(double seconds) {
    const double begin = Now();
    uint64_t bytes = 0;
    while (Now() - begin < seconds) {
      for (size_t at = 0; at < text_.size(); at += kRecordBytes, bytes += kRecordBytes) {
        const auto text = std::span(text_).subspan(at, kRecordBytes);
        EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce_.data(), -1);
        if (encrypts_) {
          Record(text, record_, true);
          EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag_.data());
        } else {
          EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag_.data());
          Record(record_, text, false);
        }
      }
    }
    return static_cast<double>(bytes) / (Now() - begin);
  }

 private:
  static constexpr int kTagBytes = 16;

  void Begin(bool encrypts) {
    EVP_CipherInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, key_.data(), nonce_.data(), encrypts);
  }
  void Record(std::span<const std::byte> from, std::span<std::byte> to, bool encrypts) {
    auto* out = reinterpret_cast<unsigned char*>(to.data());
    int size = 0;
    EVP_CipherUpdate(context_.get(), out, &size, reinterpret_cast<const unsigned char*>(from.data()),
                     kRecordBytes);
    if (EVP_CipherFinal_ex(context_.get(), out + size, &size) != 1)
      Fail(encrypts ? "encryption" : "decryption");
  }

  const bool encrypts_;
  Bytes text_, record_;
  const std::array<unsigned char, 16> key_{};
  const std::array<unsigned char, 12> nonce_{};
  std::array<unsigned char, kTagBytes> tag_{};
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context_{EVP_CIPHER_CTX_new(),
                                                                                 &EVP_CIPHER_CTX_free};
};

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 6);
  args.RefuseTheRest();
  bench::Report report("tls", args);
  const TemporaryFolder folder;
  const auto identity = MakeIdentity(folder.path());
  Source plain(nullptr), tls(identity);
  Cipher encrypt(true), decrypt(false);
  std::vector<double> plain_rates, one_rates, two_rates, tls_rates, references, busy_references;
  for (int round = 0; round <= kRounds; ++round) {
    const double slice = seconds / (4 * (kRounds + 1));
    const double plain_rate = plain.Rate(slice) / kGibi;
    const double one = encrypt.Rate(slice) / kGibi;
    auto other = std::async(std::launch::async, [&] { return decrypt.Rate(slice) / kGibi; });
    const double sender = encrypt.Rate(slice) / kGibi;
    const double two = std::min(sender, other.get());
    const double tls_rate = tls.Rate(slice) / kGibi;
    if (round == 0) continue;  // warm-up
    plain_rates.push_back(plain_rate);
    one_rates.push_back(one);
    two_rates.push_back(two);
    tls_rates.push_back(tls_rate);
    references.push_back(1 / (1 / plain_rate + 1 / one));
    busy_references.push_back(1 / (1 / plain_rate + 1 / two));
  }
  report.Add(bench::MedianRow("push 16 MiB", plain_rates, "GiB/s"));
  report.Add(bench::MedianRow("AES-128-GCM, one thread", one_rates, "GiB/s"));
  report.Add(bench::MedianRow("AES-128-GCM, one thread encrypts, one decrypts", two_rates, "GiB/s"));
  report.Add(bench::MedianRow("push 16 MiB, TLS", tls_rates, "GiB/s", "tcp, then AES-GCM", references,
                              bench::RatioAtLeast(0.8)));
  report.Add(bench::MedianRow("push 16 MiB, TLS", tls_rates, "GiB/s", "tcp, then AES-GCM on two threads",
                              busy_references));
  std::vector<double> times, plain_times;
  for (int i = 0; i < 101; ++i) {
    plain_times.push_back(plain.Connect() * 1e3);
    times.push_back(tls.Connect() * 1e3);
  }
  report.Add(bench::MedianRow("handshake", plain_times, "ms"));
  report.Add(bench::MedianRow("handshake, TLS", times, "ms", {}, {}, bench::ValueAtMost(5)));
  report.Note("both ends in one process, on two threads; messages are answered one by one");
  report.Note(
      "TLS needs two processors at once; on a busy machine AES-GCM on one thread is hardly slowed down");
  return report.Finish();
}
