#include "cli/demo/kafka_demo.h"

#include <stdlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/config/config.h"
#include "base/exit_status.h"
#include "cli/demo/demo_job.h"
#include "run/launcher/output/output_file.h"
#include "run/launcher/signals.h"

namespace leat {
namespace {

std::string MakeFolder() {
  std::string folder = std::filesystem::temp_directory_path() / "leat-demo-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr)
    Throw({CodeOfErrno(errno), "cannot create the directory " + folder + ": " + std::strerror(errno)});
  return folder;
}

// A name that a cluster does not have yet.
std::string NewTopic() {
  const std::time_t now = std::time(nullptr);
  char name[64];
  std::strftime(name, sizeof(name), "leat-demo-%Y%m%d-%H%M%S", std::gmtime(&now));
  return name;
}

std::string JobText(const std::string& brokers, const std::string& topic) {
  const Config job = Config::Parse(kDemoJob, "demo");
  const Config kafka = Config::EmptyMap("demo").With("bootstrap.servers", brokers);
  const Config stream = job.At("stream").Without("retention_mb").With("topic", topic).With("kafka", kafka);
  return job.With("stream", stream).ToYaml();
}

}  // namespace

KafkaDemo::KafkaDemo(const std::string& brokers) {
  launcher::BlockSignals();
  std::string address = brokers, tool;
  if (brokers.empty()) {
    tool = OrThrow(launcher::FindBrokerTool());
  }
  folder_ = MakeFolder();
  if (brokers.empty()) {
    auto started = launcher::LocalBroker::Start(tool, folder_ + "/broker");
    if (!started.ok()) {
      std::filesystem::remove_all(folder_);
      Throw(started.status());
    }
    broker_ = std::move(*started);
    address = broker_->address();
  }
  const std::string topic = brokers.empty() ? "payments" : NewTopic();
  if (const Status written = launcher::WriteOutput(job_file(), JobText(address, topic)); !written.ok()) {
    broker_.reset();
    std::filesystem::remove_all(folder_);
    Throw(written);
  }
  std::fprintf(stderr, "the events are in the topic '%s' of Kafka at %s%s\n", topic.c_str(), address.c_str(),
               brokers.empty() ? "; the broker ends with the demo" : "");
}

KafkaDemo::~KafkaDemo() {
  broker_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace leat
