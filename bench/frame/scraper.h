// Observers of a job: a Prometheus server, which reads the metrics of its roles again and again, and a
// browser with its page.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace leat::bench {

// A free port of the loopback, at the moment.
uint16_t FreePort();

class Scraper {
 public:
  // Reads the metrics of all targets every `interval_s`, until destroyed. The coordinator serves metrics at
  // `address`, which may come up later.
  Scraper(std::string address, std::string view_token, double interval_s);
  ~Scraper();
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

  uint64_t pages() const { return pages_; }  // pages of metrics read so far

 private:
  void Run();

  const std::string address_, view_token_;
  const double interval_s_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> pages_{0};
  std::thread thread_;
};

// Follows the page of a job, as a browser does.
class Viewer {
 public:
  // Follows the page at `address`, which may come up later, until destroyed.
  Viewer(std::string address, std::string view_token);
  ~Viewer();
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  uint64_t bytes() const { return bytes_; }  // bytes received from the page's /events

 private:
  void Run();

  const std::string address_, view_token_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> bytes_{0};
  std::thread thread_;
};

}  // namespace leat::bench
