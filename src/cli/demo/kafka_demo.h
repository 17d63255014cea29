// leat demo --kafka: the demo's job with its events in a topic of Kafka.
#pragma once

#include <memory>
#include <string>

#include "run/launcher/local_broker.h"

namespace leat {

// Has the job file of one run, and the broker if there is no other, until it is destroyed.
class KafkaDemo {
 public:
  // `brokers`: of a running cluster; empty: starts a broker. Throws std::invalid_argument if it cannot.
  explicit KafkaDemo(const std::string& brokers);
  ~KafkaDemo();
  KafkaDemo(const KafkaDemo&) = delete;
  KafkaDemo& operator=(const KafkaDemo&) = delete;

  std::string job_file() const { return folder_ + "/demo.yaml"; }

 private:
  std::string folder_;  // temporary
  std::unique_ptr<launcher::LocalBroker> broker_;
};

}  // namespace leat
