// leat log: lists the topics of an embedded log, and releases pins of jobs that no longer exist.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/exit_status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "stream/log/log.h"

namespace leat {
namespace {

// The directory of the job that owns a pin, from "name@directory"; "" if it is no absolute path.
std::string DirectoryOf(const std::string& owner) {
  const size_t at = owner.find("@/");
  return at == std::string::npos ? "" : owner.substr(at + 1);
}

// A job exists as long as its directory has a job file.
bool Gone(const std::string& owner) {
  const std::string directory = DirectoryOf(owner);
  std::error_code error;
  const bool there = std::filesystem::exists(directory + "/job.yaml", error);
  return !directory.empty() && !there && !error;
}

std::string Mebibytes(uint64_t bytes) {
  return Formatted("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

void Release(const std::string& directory, const std::string& topic, const std::string& owner) {
  auto source = OrThrow(stream::EmbeddedLog::OpenSource(directory, topic));
  if (const Status released = source->Unpin(owner); !released.ok()) Throw(released);
}

void Show(const std::string& directory, const stream::TopicInfo& topic, bool release) {
  std::printf("%s  %u partitions  %llu records  %s, %s on disk%s\n", topic.topic.c_str(), topic.partitions,
              static_cast<unsigned long long>(topic.records), Mebibytes(topic.bytes).c_str(),
              Mebibytes(topic.disk_bytes).c_str(), topic.sealed ? "  sealed" : "");
  for (const auto& pin : topic.pins) {
    const bool gone = Gone(pin.owner);
    if (gone && release) Release(directory, topic.topic, pin.owner);
    const char* note = !gone     ? ""
                       : release ? "  (the job no longer exists: released)"
                                 : "  (the job no longer exists)";
    std::printf("  pin of %s: %llu records%s\n", pin.owner.c_str(),
                static_cast<unsigned long long>(pin.retained), note);
  }
}

}  // namespace

void AddLogCommand(CLI::App& app, int* result) {
  struct Options {
    std::string directory;
    bool release = false;
  };
  const auto a = std::make_shared<Options>();
  auto* command = app.add_subcommand("log", "list the topics, sizes and retention pins of an embedded log");
  command
      ->add_option("directory", a->directory,
                   "directory of the log: the job's `log:`, or `log` in the job's directory")
      ->required();
  command->add_flag("--release-pins", a->release, "remove the pins of jobs whose directory no longer exists");
  command->callback([a, result] {
    const auto topics = stream::EmbeddedLog::List(a->directory);
    if (!topics.ok()) Throw(topics.status());
    if (topics->empty()) std::printf("no topics in %s\n", a->directory.c_str());
    for (const auto& topic : *topics) Show(a->directory, topic, a->release);
    *result = 0;
  });
}

}  // namespace leat
