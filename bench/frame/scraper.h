// Reads the metrics of a job's roles again and again, as a Prometheus server does.
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
  // `address`: of the coordinator's metrics. It may come up later. Reads the metrics of all targets every
  // `interval_s`, until destroyed.
  Scraper(std::string address, std::string view_token, double interval_s);
  ~Scraper();
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

  uint64_t pages() const { return pages_; }  // that were read

 private:
  void Run();

  const std::string address_, view_token_;
  const double interval_s_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> pages_{0};
  std::thread thread_;
};

}  // namespace leat::bench
