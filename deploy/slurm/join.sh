#!/bin/bash
# Starts one or more workers in the allocation of a job that runs: join.sh DIRECTORY [--node NODE] [--workers N]
#
# DIRECTORY is the job's. The workers stay until the job ends, or until they get SIGTERM (Ctrl-C): they hand over their
# work, and the job goes on.
refuse() {
  echo "leat: $*" >&2
  exit 2
}
directory='' node='' workers=1
while (($#)); do
  case $1 in
    --node | --workers)
      (($# > 1)) || refuse "$1 needs a value"
      if [[ $1 == --node ]]; then node=$2; else workers=$2; fi
      shift ;;
    -*) refuse "unknown option $1; join.sh DIRECTORY [--node NODE] [--workers N]" ;;
    *)
      [[ -z $directory ]] || refuse "one directory, not both $directory and $1"
      directory=$1 ;;
  esac
  shift
done
[[ -n $directory ]] || refuse "which job: join.sh DIRECTORY [--node NODE] [--workers N]"
[[ $workers =~ ^[1-9][0-9]{0,2}$ ]] || refuse "--workers $workers: a number from 1 to 999"
[[ $directory == /* ]] || directory=$PWD/$directory
state=${directory%/}.slurm
[[ -r $state/settings ]] || refuse "no allocation runs the job of $directory ($state/settings is not there, or not yours)"
job=$(sed -n 's/^job //p' "$state/settings")
here=$(cd "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
exec srun --jobid="$job" --overlap --overcommit --cpu-bind=none --kill-on-bad-exit=0 --wait=0 --job-name=joined --nodes=1 \
  --ntasks="$workers" ${node:+--nodelist="$node"} "$here/role.sh" "$state" worker
