#include "scraper.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"

namespace leat::bench {
namespace {

size_t Append(const char* data, size_t size, size_t count, void* to) {
  static_cast<std::string*>(to)->append(data, size * count);
  return size * count;
}

// Requests with the view token, in one thread.
class Client {
 public:
  explicit Client(const std::string& view_token)
      : curl_(curl_easy_init(), curl_easy_cleanup),
        headers_(curl_slist_append(nullptr, ("Authorization: Bearer " + view_token).c_str()),
                 curl_slist_free_all) {
    LEAT_CHECK(curl_ != nullptr);
    curl_easy_setopt(curl(), CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(curl(), CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(curl(), CURLOPT_NOSIGNAL, 1L);
  }

  CURL* curl() { return curl_.get(); }
  // None if it cannot be read within 5 s.
  std::optional<std::string> Get(const std::string& url) {
    std::string body;
    curl_easy_setopt(curl(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl(), CURLOPT_TIMEOUT, 5L);
    curl_easy_setopt(curl(), CURLOPT_WRITEFUNCTION, &Append);
    curl_easy_setopt(curl(), CURLOPT_WRITEDATA, &body);
    long status = 0;
    if (curl_easy_perform(curl()) != CURLE_OK ||
        curl_easy_getinfo(curl(), CURLINFO_RESPONSE_CODE, &status) != CURLE_OK || status != 200)
      return std::nullopt;
    return body;
  }

 private:
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_;
};

size_t Count(const char*, size_t size, size_t count, void* to) {
  *static_cast<std::atomic<uint64_t>*>(to) += size * count;
  return size * count;
}

// curl asks at least once a second.
int Stops(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(stop)->load() ? 1 : 0;
}

}  // namespace

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof(at);
  LEAT_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
             getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  close(fd);
  return ntohs(at.sin_port);
}

Viewer::Viewer(std::string address, std::string view_token)
    : address_(std::move(address)), view_token_(std::move(view_token)), thread_([this] { Run(); }) {}

Viewer::~Viewer() {
  stop_ = true;
  thread_.join();
}

void Viewer::Run() {
  Client client(view_token_);
  while (!stop_ && !client.Get("http://" + address_ + "/history?seconds=300&points=300")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CURL* const curl = client.curl();
  // Ends with the job, or when told to.
  curl_easy_setopt(curl, CURLOPT_URL, ("http://" + address_ + "/events").c_str());
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 0L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Count);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &bytes_);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Stops);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &stop_);
  curl_easy_perform(curl);
}

Scraper::Scraper(std::string address, std::string view_token, double interval_s)
    : address_(std::move(address)),
      view_token_(std::move(view_token)),
      interval_s_(interval_s),
      thread_([this] { Run(); }) {}

Scraper::~Scraper() {
  stop_ = true;
  thread_.join();
}

void Scraper::Run() {
  Client client(view_token_);
  auto due = std::chrono::steady_clock::now();
  while (!stop_) {
    if (std::chrono::steady_clock::now() < due) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    due += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(interval_s_));
    const auto found = client.Get("http://" + address_ + "/targets");
    const auto targets = nlohmann::json::parse(found.value_or(""), nullptr, false);
    if (!targets.is_array()) continue;
    for (const auto& target : targets) {
      if (client.Get("http://" + target["targets"][0].get<std::string>() + "/metrics")) ++pages_;
    }
  }
}

}  // namespace leat::bench
