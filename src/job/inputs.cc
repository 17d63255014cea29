// Identities of what a job's stream is read from. A role on another host may have other files of the same
// name, or another topic.
#include "base/rng.h"
#include "job/job.h"

namespace leat::job {

Job Job::WithInputs(std::vector<std::string> identities) const {
  Job job = *this;
  const Config resolved = config.Has(kResolved) ? config.At(kResolved) : Config::EmptyMap(kResolved);
  job.config = config.With(kResolved, resolved.With("inputs", identities));
  job.inputs = std::move(identities);
  return job;
}

Status Job::CheckInputs() const {
  LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> own, stream.Identify());
  if (inputs.empty() || own == inputs) return Status();
  const auto differs = [](const std::string& what, const std::string& its, const std::string& wanted) {
    return Status(Code::kFailedPrecondition,
                  what + " is not the job's: it is " + its + ", the job has " + wanted);
  };
  const FileStream* files = stream.files();
  if (files == nullptr || own.size() != inputs.size())
    return differs(stream.Describe(), own.empty() ? "without an id" : own.front(), inputs.front());
  size_t first = 0;
  while (own[first] == inputs[first]) ++first;
  return differs(files->options.paths[first], own[first], inputs[first]);
}

uint64_t Job::InputsHash() const {
  uint64_t hash = 0;
  for (const std::string& input : inputs) hash = Mix(hash, HashName(input)) | 1;
  return hash;
}

}  // namespace leat::job
