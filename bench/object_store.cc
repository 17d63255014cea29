// The upload of a shard of 1 GB to an object store, compared with a bare multipart upload by libcurl: the
// same file, the same parts, the same number of connections, alternating in one run. Both send to the same
// sink on loopback, which reads and forgets, because real servers for tests are slower than either. The bare
// upload neither signs nor computes checksums, and sends each part from memory that it has read before.

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "frame/report.h"
#include "storage/object_store/object_store.h"

namespace {

using namespace leat;

constexpr uint64_t kBytes = 1'000'000'000;
constexpr uint64_t kPart = 16 << 20;
constexpr uint32_t kConnections = 4;
constexpr int kRounds = 5;

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "object_store: %s\n", why.c_str());
  std::exit(1);
}

double Now() {
  return Seconds(MonotonicClock().Now());
}

// Answers each request of HTTP/1.1 as a store would, and forgets its body.
class Sink {
 public:
  Sink() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_, generic, size) != 0 || listen(socket_, 64) != 0 ||
        getsockname(socket_, generic, &size) != 0)
      Fail("no sink");
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    acceptor_ = std::thread([this] {
      for (int one; (one = accept(socket_, nullptr, nullptr)) >= 0;)
        readers_.emplace_back([this, one] { Serve(one); });
    });
  }
  // After all clients have closed their connections.
  ~Sink() {
    shutdown(socket_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& reader : readers_) reader.join();
    close(socket_);
  }
  const std::string& url() const { return url_; }
  uint64_t received() const { return received_; }

 private:
  void Serve(int socket) {
    std::vector<char> memory(1 << 20);
    std::string head;
    while (true) {
      size_t end;
      while ((end = head.find("\r\n\r\n")) == std::string::npos) {
        const ssize_t n = read(socket, memory.data(), memory.size());
        if (n <= 0) {
          close(socket);
          return;
        }
        head.append(memory.data(), static_cast<size_t>(n));
      }
      const std::string request = head.substr(0, end + 2);
      std::string rest = head.substr(end + 4);
      uint64_t left = 0;
      for (const char* name : {"Content-Length: ", "content-length: "}) {
        if (const size_t at = request.find(name); at != std::string::npos)
          left = std::strtoull(request.c_str() + at + std::strlen(name), nullptr, 10);
      }
      received_ += left;
      const size_t here = std::min<uint64_t>(left, rest.size());
      left -= here;
      head = rest.substr(here);
      while (left > 0) {
        const ssize_t n = read(socket, memory.data(), std::min<uint64_t>(left, memory.size()));
        if (n <= 0) Fail("a client has gone");
        left -= static_cast<uint64_t>(n);
      }
      std::string body;
      if (request.starts_with("POST")) {
        body = request.find("?uploads") != std::string::npos
                   ? "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
                   : "<CompleteMultipartUploadResult/>";
      }
      const std::string reply =
          "HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
          body;
      if (write(socket, reply.data(), reply.size()) < 0) Fail("a client has gone");
    }
  }

  const int socket_;
  std::string url_;
  std::atomic<uint64_t> received_ = 0;
  std::vector<std::thread> readers_;  // a thread per connection; the acceptor alone adds them
  std::thread acceptor_;
};

struct Part {
  const char* data;
  size_t left;
};

size_t Send(char* out, size_t size, size_t count, void* data) {
  auto& part = *static_cast<Part*>(data);
  const size_t bytes = std::min(size * count, part.left);
  std::memcpy(out, part.data, bytes);
  part.data += bytes;
  part.left -= bytes;
  return bytes;
}

size_t Ignore(char*, size_t size, size_t count, void*) {
  return size * count;
}

void Put(CURL* curl, const std::string& url, const char* method, const char* data, size_t bytes) {
  Part part{data, bytes};
  curl_easy_reset(curl);
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
  curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
  curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(bytes));
  curl_easy_setopt(curl, CURLOPT_READFUNCTION, &Send);
  curl_easy_setopt(curl, CURLOPT_READDATA, &part);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Ignore);
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl);
  curl_slist_free_all(headers);
  if (code != CURLE_OK) Fail(curl_easy_strerror(code));
}

double Bare(const std::string& url, int file) {
  const double begun = Now();
  CURL* first = curl_easy_init();
  Put(first, url + "/bucket/bare?uploads=", "POST", nullptr, 0);
  std::atomic<uint64_t> next = 0;
  const uint64_t parts = (kBytes + kPart - 1) / kPart;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kConnections; ++i) {
    threads.emplace_back([&] {
      CURL* curl = curl_easy_init();
      std::vector<char> memory(kPart);
      for (uint64_t part = next++; part < parts; part = next++) {
        const size_t bytes = std::min(kPart, kBytes - part * kPart);
        if (pread(file, memory.data(), bytes, static_cast<off_t>(part * kPart)) !=
            static_cast<ssize_t>(bytes))
          Fail("the file cannot be read");
        Put(curl, url + "/bucket/bare?partNumber=" + std::to_string(part + 1) + "&uploadId=1", "PUT",
            memory.data(), bytes);
      }
      curl_easy_cleanup(curl);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Put(first, url + "/bucket/bare?uploadId=1", "POST", nullptr, 0);
  curl_easy_cleanup(first);
  return Now() - begun;
}

double Ours(const std::string& url, int file) {
  const double begun = Now();
  object_store::StoreOptions options;
  options.environment = [](const char* name) -> std::optional<std::string> {
    const std::string_view variable = name;
    if (variable == "AWS_ACCESS_KEY_ID" || variable == "AWS_SECRET_ACCESS_KEY") return "key";
    return std::nullopt;
  };
  auto store = object_store::OpenS3(
      {.bucket = "bucket", .prefix = "p", .endpoint = url, .connections = kConnections, .part_bytes = kPart},
      options);
  if (!store.ok()) Fail(store.status().message());
  const Status done = (*store)->Upload("ours", kBytes, [file](uint64_t offset, std::span<std::byte> out) {
    const ssize_t n = pread(file, out.data(), out.size(), static_cast<off_t>(offset));
    return n == static_cast<ssize_t>(out.size()) ? Status()
                                                 : Status(Code::kDataLoss, "the file cannot be read");
  });
  if (!done.ok()) Fail(done.message());
  return Now() - begun;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  args.RefuseTheRest();
  bench::Report report("object_store", args);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const int file = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(kBytes)) != 0) Fail("no memory for a file of 1 GB");
  std::vector<char> piece(kPart);
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 2654435761u >> 13);
  for (uint64_t at = 0; at < kBytes; at += kPart)
    if (pwrite(file, piece.data(), std::min(kPart, kBytes - at), static_cast<off_t>(at)) < 0)
      Fail("no memory for a file of 1 GB");
  std::vector<double> bare, ours;
  {
    Sink sink;
    for (int round = 0; round < kRounds; ++round) {
      bare.push_back(Bare(sink.url(), file));
      ours.push_back(Ours(sink.url(), file));
    }
    if (sink.received() < 2 * kRounds * kBytes) Fail("the sink has not got everything");
  }
  close(file);
  const auto speeds = [](std::vector<double> seconds) {
    for (double& value : seconds) value = kBytes / 1e9 / value;
    return seconds;
  };
  report.Add(bench::MedianRow("upload with signatures and checksums", speeds(ours), "GB/s",
                              "bare libcurl, without both", speeds(bare), bench::RatioAtLeast(0.7)));
  report.Note("1 GB in parts of 16 MiB by " + std::to_string(kConnections) +
              " connections to a sink on loopback");
  return report.Finish();
}
