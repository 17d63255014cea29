// All-reduce by MPI in real processes under mpirun.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "train/collective/mpi.h"

namespace {

using ::testing::HasSubstr;

struct Outcome {
  int status = -1;
  double seconds = 0;
  std::string output;
};

Outcome MpirunOnce(int members, const std::string& arguments) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // Not in a folder that another mpirun removes at its end.
  const leat::TempDir folder;
  setenv("OMPI_MCA_orte_tmpdir_base", folder.path().c_str(), 1);
  // `timeout` only ends a hang.
  const std::string command = "timeout -k 5 120 " LEAT_MPIRUN " --oversubscribe --bind-to none -np " +
                              std::to_string(members) + " " LEAT_MPI_MEMBER " " LEAT_MPI_MODULE " " +
                              arguments + " 2>&1 </dev/null";
  const auto begin = std::chrono::steady_clock::now();
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char bytes[4096];
  for (size_t n; (n = fread(bytes, 1, sizeof(bytes), pipe)) > 0;) outcome.output.append(bytes, n);
  outcome.status = WEXITSTATUS(pclose(pipe));
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

// mpirun of Open MPI 4.1 may crash in its own clean-up, once all members have ended, if several of them end
// the job at the same time.
Outcome Mpirun(int members, const std::string& arguments) {
  Outcome outcome = MpirunOnce(members, arguments);
  for (int i = 0; i < 3 && outcome.output.find("PMIx_server_finalize") != std::string::npos; ++i)
    outcome = MpirunOnce(members, arguments);
  return outcome;
}

TEST(MpiTest, SumsAreRight) {
  for (const int members : {1, 2, 4}) {
    const Outcome outcome = Mpirun(members, "sums");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    for (int rank = 0; rank < members; ++rank)
      EXPECT_THAT(outcome.output, HasSubstr("rank " + std::to_string(rank) + " is fine"));
  }
}

// The deadline is 1.5 s; the rest is for mpirun to start and end on a busy machine.
constexpr double kInTime = 60;

TEST(MpiTest, AKilledMemberEndsTheOthers) {
  for (const int members : {2, 4}) {
    const Outcome outcome = Mpirun(members, "die 1");
    EXPECT_NE(outcome.status, 0);
    EXPECT_LT(outcome.seconds, kInTime);
    EXPECT_THAT(outcome.output, HasSubstr("rank 1"));
  }
}

TEST(MpiTest, AStoppedMemberEndsTheOthersWithItsName) {
  for (const char* order : {"", " lanes"}) {
    const Outcome outcome = Mpirun(4, std::string("stop 2") + order);
    EXPECT_EQ(outcome.status, 7) << outcome.output;
    EXPECT_LT(outcome.seconds, kInTime);
    EXPECT_THAT(outcome.output,
                HasSubstr("all-reduce 1 was not complete in time: rank 2 does not answer, lost 2"));
    EXPECT_THAT(outcome.output, HasSubstr("ending the job"));
  }
}

TEST(MpiTest, AMemberThatDoesNotComeIsNamed) {
  const Outcome outcome = Mpirun(2, "late 1");
  EXPECT_EQ(outcome.status, 7) << outcome.output;
  EXPECT_LT(outcome.seconds, kInTime);
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 has not started it, lost 1"));
}

TEST(MpiTest, AMemberThatGivesUpEndsTheOthersWithWhatIsWrong) {
  const Outcome outcome = Mpirun(2, "give-up 1");
  EXPECT_EQ(outcome.status, 5) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("rank 1: nothing can be read; ending the job"));
}

TEST(MpiTest, AMemberThatNeverStartsEndsTheOthers) {
  const Outcome outcome = Mpirun(2, "absent 1");
  EXPECT_EQ(outcome.status, 7) << outcome.output;
  EXPECT_LT(outcome.seconds, kInTime);
  EXPECT_THAT(outcome.output, HasSubstr("rank 0 has no group: deadline exceeded: not all MPI processes"));
  EXPECT_THAT(outcome.output, HasSubstr("ending the job"));
}

TEST(MpiTest, AMemberThatEndsBeforeTheGroupIsFormedEndsTheOthers) {
  const Outcome outcome = Mpirun(2, "early");
  EXPECT_EQ(outcome.status, 7) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ended before all MPI processes had started; ending the job"));
}

TEST(MpiTest, ARankDifferentFromMpisIsReported) {
  const Outcome outcome = Mpirun(2, "misplaced 1");
  EXPECT_EQ(outcome.status, 7) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("MPI says rank 1 of 2, but the environment says rank 1 of 3"));
}

TEST(MpiTest, TheRankComesFromTheLauncher) {
  struct Case {
    std::map<std::string, std::string> variables;
    std::optional<std::pair<uint32_t, uint32_t>> place;
  };
  const std::vector<Case> cases = {
      {{}, {}},
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, {{1, 4}}},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, {{0, 2}}},
      {{{"PMIX_RANK", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}}, {{3, 8}}},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, {}},
      {{{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, {}},
      {{{"OMPI_COMM_WORLD_RANK", "-1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, {}},
      {{{"OMPI_COMM_WORLD_RANK", "1x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, {}},
  };
  for (const Case& one : cases) {
    for (const auto& [name, value] : one.variables) setenv(name.c_str(), value.c_str(), 1);
    const auto place = leat::collective::FindMpiRank();
    const auto found = place ? std::optional(std::pair(place->rank, place->members)) : std::nullopt;
    EXPECT_EQ(found, one.place);
    for (const auto& [name, value] : one.variables) unsetenv(name.c_str());
  }
}

TEST(MpiTest, AModuleThatIsNotThereIsSaid) {
  const auto module = leat::collective::LoadMpi("/nowhere/leat_mpi.so");
  EXPECT_EQ(module.status().code(), leat::Code::kNotFound);
  EXPECT_THAT(module.status().message(), HasSubstr("/nowhere/leat_mpi.so"));
}

TEST(MpiTest, AHangingProcessIsEndedAfterAFailure) {
  const Outcome outcome = Mpirun(2, "leave-hanging 0");
  EXPECT_EQ(outcome.status, 7) << outcome.output;
  EXPECT_LT(outcome.seconds, kInTime);
  EXPECT_THAT(outcome.output, HasSubstr("rank 0 does not answer"));
}

}  // namespace
