// The `model:` section of a job, and what its schema takes from it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "compute/nn/model.h"
#include "job/job.h"
#include "stream/schema.h"

namespace leat::job {

// All throw std::invalid_argument with the place and the values.

// Where this host has the files of the model: those of `copies`, and else those of `assets`, which must have
// the job's identities. Names the copies in `assets`.
nn::LayerFiles LayerFilesOf(const std::string& data, const nn::LayerFiles::Copies& copies,
                            std::vector<Asset>* assets);

// Builds the model of a job for a schema. Labels of a model with classes become classes of the schema, so any
// other value makes a dead letter. `seed`: of the job.
std::shared_ptr<const nn::Model> BuildModel(const Config& job, nn::LayerFiles files, uint64_t seed,
                                            stream::Schema* schema);

// The schema by which the workers of a job decode records, from the file of the job alone. A model that
// cannot be built here sets `*without_model` to the reason, and its classes are missing. A file may lack a
// model.
stream::Schema DecodingSchema(const Config& job, std::string* without_model);

}  // namespace leat::job
