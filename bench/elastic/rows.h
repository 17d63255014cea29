// The measurements of `bench elastic`: one function per group of rows.
#pragma once

namespace leat::bench {

class Report;

struct ElasticOptions {
  int runs = 3;        // repetitions of each fault
  double seconds = 0;  // length of the rows with a set time; 0: each row's default
};

// The longest pause of a worker after another one, or a server, is killed. All values are the worst of all
// runs.
void MeasureKilledWorkers(Report& report, const ElasticOptions& options);
void MeasureKilledServers(Report& report, const ElasticOptions& options);
void MeasureKilledServersWithReplicas(Report& report, const ElasticOptions& options);
// The training that workers lose while the coordinator is restarted, or a standby takes over.
void MeasureRestartedCoordinators(Report& report, const ElasticOptions& options);
void MeasureStandbyCoordinators(Report& report, const ElasticOptions& options);
// The throughput of examples/mnist.yaml with replicas, against the same job without.
void MeasureCostOfReplicas(Report& report, const ElasticOptions& options);
// The throughput of a job in which workers and servers are killed again and again, against the same job
// undisturbed beside it.
void MeasureGoodput(Report& report, const ElasticOptions& options);
void MeasureGoodputWithoutReplicas(Report& report, const ElasticOptions& options);
// How long workers wait when others join and leave.
void MeasureScaling(Report& report, const ElasticOptions& options);
// Members that are taken for dead while other work takes most of the processors.
void MeasureFalseEvictions(Report& report, const ElasticOptions& options);
// Throughput, and bytes sent, while slices move to a server that joins or from one that leaves.
void MeasureMoves(Report& report, const ElasticOptions& options);

}  // namespace leat::bench
