#include "job/resume.h"

#include <stdexcept>
#include <string>

#include "checkpoint/store.h"

namespace leat::job {

Job ReadStored(const std::string& directory) {
  const auto text = checkpoint::ReadJob(directory);
  if (!text.ok()) throw std::invalid_argument(text.status().message());
  return Job::FromResolved(*text, directory + "/job.yaml");
}

void CheckResumable(const Job& job) {
  const auto now = job.Identity();
  const auto then = ReadStored(job.directory).Identity();
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].second == then[i].second) continue;
    const auto short_one = [](const std::string& value) {
      return value.size() < 40 && value.find('\n') == value.npos;
    };
    const bool both = short_one(now[i].second) && short_one(then[i].second);
    throw std::invalid_argument("'" + now[i].first + "' of job '" + job.name +
                                (both ? "' is '" + now[i].second + "' and" : "'") +
                                " differs from the job that " + job.directory + " was made by" +
                                (both ? " ('" + then[i].second + "')" : "") + "; resume needs the same");
  }
  if (auto status = checkpoint::Verify(job.directory); !status.ok())
    throw std::invalid_argument(status.message());
}

}  // namespace leat::job
