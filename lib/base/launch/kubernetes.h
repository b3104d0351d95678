/* Where the pods of an indexed job of Kubernetes meet. */
#ifndef RD_KUBERNETES_H
#define RD_KUBERNETES_H

#include <stddef.h>

/*
 * Writes the name of the pod of index 0. A pod's host name is JOB-INDEX. With a headless service
 * (`subdomain`) its full name is JOB-INDEX.SERVICE.NAMESPACE.svc.DOMAIN. RONDO_SETTING, with a
 * remedy, where this host has no such names.
 */
int rd_kubernetes_host(char *host, size_t size, int index);

#endif
