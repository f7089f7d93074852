// What this reader may do: on a team's page everything is there to be read, and nothing to be changed.

export const may = $state({ change: true })
