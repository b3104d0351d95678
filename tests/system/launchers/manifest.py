"""manifest.py FILE: whether this is a headless service and an indexed job whose pods find each other by it."""

import sys

import yaml

with open(sys.argv[1], encoding="utf-8") as file:
    service, job = yaml.safe_load_all(file)


def check(condition, text):
    if not condition:
        sys.exit(f"{sys.argv[1]}: {text}")


pod = job["spec"]["template"]["spec"]
variables = {v["name"]: v["value"] for v in pod["containers"][0]["env"]}
count = job["spec"]["completions"]
check((service["apiVersion"], service["kind"]) == ("v1", "Service"), "no service")
check(service["spec"]["clusterIP"] == "None", "the service is not headless")
check(service["spec"]["publishNotReadyAddresses"], "pods cannot find those that start")
check(service["metadata"]["name"] == pod["subdomain"], "the subdomain names another service")
check(
    service["spec"]["selector"] == {"job-name": job["metadata"]["name"]},
    "the service selects other pods",
)
check((job["apiVersion"], job["kind"]) == ("batch/v1", "Job"), "no job")
check(job["spec"]["completionMode"] == "Indexed", "the job is not indexed")
check(job["spec"]["parallelism"] == count, "not all pods run at once")
check(variables == {"WORLD_SIZE": str(count)}, "WORLD_SIZE is not completions, or not alone")
